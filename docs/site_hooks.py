"""The documentation site: pages from the root, links out of docs/, examples in docstrings, no CDN.

The functions are hooks of mkdocs, the class is an extension of griffe, which reads the docstrings.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import griffe
from pygments.formatters import HtmlFormatter

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
LOADED = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=["']?https?:""")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages at the root, and the colours of code."""
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(root / source).read_text()))
    colours = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    files.append(File.generated(config, "page/pygments.css", content=colours))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Lead links to where the site has them; a file that it has not is named instead."""
    folder = "" if page.file.src_uri in PAGES.values() else "docs"

    def site_link(match: re.Match[str]) -> str:
        text, link = match.groups()
        if re.match(r"https?:|#", link):
            return match[0]
        target, *anchor = posixpath.normpath(posixpath.join(folder, link)).split("#")
        if target not in PAGES and not target.startswith("docs/"):
            return f"{text} (`{target}`)"
        name = PAGES.get(target, target.removeprefix("docs/"))
        return f"[{text}]({'#'.join([name, *anchor])})"

    return LINK.sub(site_link, markdown)


def on_post_build(*, config: Any) -> None:
    """Refuse a site that loads anything from elsewhere: it is to be read without a network."""
    for page in Path(config.site_dir).rglob("*.html"):
        if found := LOADED.search(page.read_text()):
            raise SystemExit(f"{page} loads something from elsewhere: {found[0]}")


class ExampleSections(griffe.Extension):  # type: ignore[misc,unused-ignore]
    """Give the examples of a docstring the heading without which they are shown as plain text."""

    def on_instance(self, *, obj: Any, **options: Any) -> None:
        if obj.docstring and not re.search(r"^Examples\n-+$", obj.docstring.value, re.MULTILINE):
            text = re.sub(r"\n\n(?=>>> )", "\n\nExamples\n--------\n", obj.docstring.value, count=1)
            obj.docstring.value = text
