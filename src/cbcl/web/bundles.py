"""Bundles: the scripts of a page as one, and its style sheets, so that few requests load it.

Made by the server from the files as they are: there is no build step. Each module becomes a
function of its own, line for line, and a source map leads from the one script back to the files.
The imports and exports that our modules use are known; `BundleError` tells of any other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

STYLE = re.compile(r'[ \t]*<link rel="stylesheet" href="/static/css/([\w-]+\.css)">\n')
SCRIPT = re.compile(r'<script type="module" src="/static/js/([\w-]+\.js)">')
IMPORT = re.compile(r'^import (?:\{([^}]*)\}|\* as (\w+)) from "\./([\w-]+\.js)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|class|(?:async )?function\*?) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*|^(?!\s*(?://|/?\*)).*\bimport\(.*", re.MULTILINE)


class BundleError(Exception):
    """A module says something in a way that cannot be bundled."""


class Module(NamedTuple):
    """A module of the page."""

    name: str
    source: str
    imported: list[str]  # names of modules
    exported: list[str]


def link_bundles(name: str, page: str) -> str:
    """Return a page that loads one style sheet and one script in place of many."""
    style = f'  <link rel="stylesheet" href="/static/{_style_name(name)}">\n'
    page = STYLE.sub("", STYLE.sub(style, page, count=1))
    return SCRIPT.sub(r'<script type="module" src="/static/bundle/\1">', page)


def _style_name(page: str) -> str:
    return f"bundle/{page.removesuffix('.html')}.css"


def bundle_page(name: str, page: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the bundles of a page by name, made of files with names such as js/main.js."""
    try:
        styles = [f"/* {style} */\n{files[f'css/{style}']}" for style in STYLE.findall(page)]
        bundles = {_style_name(name): "\n".join(styles)}
        for script in SCRIPT.findall(page):
            bundles |= _bundle_scripts(script, files)
    except KeyError as error:
        raise BundleError(f"{error.args[0]} is missing") from error
    return bundles


def _bundle_scripts(entry: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return a module and all that it imports, each after those that it needs, and the map."""
    lines: list[str] = []
    sections: list[dict[str, Any]] = []
    for module in _in_order(entry, files, set(), ()):
        lines.append(f"const {_variable(module.name)} = await (async () => {{")
        body = _as_function_body(module).removesuffix("\n").split("\n")
        sections.append({"offset": {"line": len(lines), "column": 0}, "map": _map(module, body)})
        lines += [*body, f"return {{ {', '.join(module.exported)} }};", "})();"]
    lines.append(f"//# sourceMappingURL={entry}.map\n")
    source_map = {"version": 3, "sections": sections}
    return {
        f"bundle/{entry}": "\n".join(lines),
        f"bundle/{entry}.map": json.dumps(source_map, ensure_ascii=False),
    }


def _map(module: Module, body: list[str]) -> dict[str, Any]:
    """Return the source map of one module, each of whose lines comes from the same line."""
    return {
        "version": 3,
        "sources": [f"../js/{module.name}"],
        "sourcesContent": [module.source],
        "names": [],
        "mappings": ";".join(["AAAA", *["AACA"] * (len(body) - 1)]),  # C: one line on
    }


def _in_order(
    name: str, files: Mapping[str, str], done: set[str], above: tuple[str, ...]
) -> Iterator[Module]:
    """Yield modules in the order in which a browser runs them."""
    if name in above:
        raise BundleError(f"{name} imports itself, through {', '.join(above)}")
    if name in done:
        return
    module = _parse(name, files[f"js/{name}"])
    for imported in module.imported:
        yield from _in_order(imported, files, done, (*above, name))
    done.add(name)
    yield module


def _parse(name: str, source: str) -> Module:
    if other := OTHER.search(EXPORT.sub("", IMPORT.sub("", source))):
        raise BundleError(f"{name}: {other[0].strip()}")
    imported = [match[3] for match in IMPORT.finditer(source)]
    return Module(name, source, imported, EXPORT.findall(source))


def _as_function_body(module: Module) -> str:
    """Return the source with imports as constants and exports as declarations, line for line."""

    def constant(match: re.Match[str]) -> str:
        names, everything, imported = match.groups()
        left = everything or "{" + re.sub(r"(\w+)\s+as\s+(\w+)", r"\1: \2", names) + "}"
        return f"const {left} = {_variable(imported)};"

    return EXPORT.sub("", IMPORT.sub(constant, module.source))


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
