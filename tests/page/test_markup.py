"""Markup, scripts and styles of the page agree with each other; read as text, without a browser."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

import cbcl

ROOT = Path(__file__).parents[2]
STATIC = Path(cbcl.__file__).parent / "web" / "static"
SCRIPTS = {path.name: path.read_text() for path in sorted((STATIC / "js").glob("*.js"))}
STYLES = {path.name: path.read_text() for path in sorted((STATIC / "css").glob("*.css"))}
TYPES = (STATIC / "js" / "types.d.ts").read_text()
TAGS = {"HTMLAnchorElement": "a", "HTMLImageElement": "img"}  # else the name says it
REFERENCES = ("for", "aria-controls", "aria-describedby", "aria-labelledby", "popovertarget")
COMPUTED = {  # ids that scripts put together, and where they come from
    ("views.js", "name"): {
        *("teach", "present", "test", "scores", "history", "memories"),
    },
    ("views.js", "`nav-${name}`"): {
        *("nav-teach", "nav-present", "nav-test", "nav-scores", "nav-history", "nav-memories"),
    },
    ("dialogs.js", "id"): {
        *("keys-dialog", "phone-dialog", "merge-dialog", "examples-dialog", "suspects-dialog"),
    },
    ("naming.js", 'camera.state === "insecure" ? "photo" : "pick"'): {"photo", "pick"},
    ("phone.js", 'asked ? "phone-renew-yes" : "phone-renew"'): {"phone-renew-yes", "phone-renew"},
}


class Markup(HTMLParser):
    """Elements of an HTML file: the tag and the attributes of each."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed((STATIC / name).read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def values(self, attribute: str) -> list[str]:
        """Return the words of an attribute, wherever it stands."""
        given = (attributes.get(attribute, "") for _, attributes in self.elements)
        return [word for value in given for word in value.split()]

    def tags(self) -> dict[str, str]:
        """Return the tag of each id."""
        return {found["id"]: tag for tag, found in self.elements if "id" in found}


INDEX, DOCS = Markup("index.html"), Markup("docs.html")


def ids_sought(name: str) -> set[str]:
    """Return the ids that a script looks up: given as they are, in a list, or put together."""
    text = SCRIPTS[name]
    ids: set[str] = set()
    for argument in re.findall(r"(?<![.\w])find\(((?:[^()]|\([^()]*\))+)\)", text):
        if re.fullmatch(r'"[\w-]+"', argument):
            ids.add(argument.strip('"'))
        elif argument == "id" and (name, argument) not in COMPUTED:
            assert ids_listed(text), f"{name}: find(id), and no list of ids"
        else:
            ids |= COMPUTED[name, argument]  # a KeyError: say in COMPUTED what it can be
    return ids | ids_listed(text)


def ids_listed(text: str) -> set[str]:
    lists = re.findall(r"for \(const id of \[([^\]]*)\]\)", text)
    return {name for each in lists for name in re.findall(r'"([\w-]+)"', each)}


def strings(text: str) -> set[str]:
    """Return the words in the string literals of a script."""
    code = re.sub(r"(?m)^\s*(//|/?\*).*$", "", text)
    literals = re.findall(r'"([^"\n]*)"|`([^`]*)`', code)
    return {word for pair in literals for part in pair for word in re.findall(r"[\w-]+", part)}


def selectors(text: str) -> str:
    """Return all that stands before an opening brace of a style sheet."""
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return "\n".join(re.findall(r"([^;{}]*)\{", plain))


def test_ids_are_unique() -> None:
    for markup in (INDEX, DOCS):
        assert [name for name, count in Counter(markup.values("id")).items() if count > 1] == []


def test_every_id_that_a_script_looks_up_is_there() -> None:
    assert len(ids_sought("answer.js")) > 10  # that anything is read at all
    for name in SCRIPTS:
        markup = DOCS if name == "docs.js" else INDEX
        assert ids_sought(name) - set(markup.values("id")) == set(), name


def test_every_reference_in_the_markup_leads_to_an_id() -> None:
    for markup in (INDEX, DOCS):
        ids = set(markup.values("id"))
        links = {link[1:] for link in markup.values("href") if link.startswith("#")}
        sought = links.union(*(markup.values(attribute) for attribute in REFERENCES))
        assert sought - ids == set()


def test_every_element_is_of_the_class_that_scripts_take_it_for() -> None:
    body = re.search(r"interface Elements \{(.*?)\n\}", TYPES, re.DOTALL)
    assert body
    declared = re.findall(r'"([\w-]+)": (\w+);', body[1])
    assert len(declared) > 15
    tags = INDEX.tags()
    for name, kind in declared:
        tag = TAGS.get(kind, re.sub("^HTML|Element$", "", kind).lower())
        assert tags[name] == tag, f"#{name} is a {tags[name]}, not a {kind}"


def test_every_icon_that_is_used_is_drawn_and_every_one_drawn_is_used() -> None:
    drawn = {name for name, tag in INDEX.tags().items() if tag == "symbol"}
    patterns = (r'\bicon\("(\w+)"\)', r'\biconButton\(\s*(?:say\([^()]*\)|[^,]+),\s*"(\w+)"')
    scripted = {
        name for text in SCRIPTS.values() for each in patterns for name in re.findall(each, text)
    }
    linked = {link[1:] for link in INDEX.values("href") if link.startswith("#icon-")}
    assert {f"icon-{name}" for name in scripted} | linked == drawn


def test_every_selector_is_used() -> None:
    words = set().union(*map(strings, SCRIPTS.values()))
    classes = words.union(INDEX.values("class"), DOCS.values("class"))
    ids = set(INDEX.values("id")) | set(DOCS.values("id"))
    for name, text in STYLES.items():
        chosen = selectors(text)
        assert set(re.findall(r"\.([a-z][\w-]*)", chosen)) - classes == set(), name
        assert set(re.findall(r"#([a-z][\w-]*)", chosen)) - ids == set(), name


def test_every_class_is_styled_or_looked_for() -> None:
    styled = set(re.findall(r"\.([a-z][\w-]*)", "\n".join(map(selectors, STYLES.values()))))
    given: set[str] = set()
    sought: set[str] = set()
    for text in SCRIPTS.values():
        literals = re.findall(r'\bclass: (?:"([^"]*)"|`([^`]*)`)', text)
        texts = (re.sub(r"\$\{\w+\}", "", part) for pair in literals for part in pair)
        given |= {word for part in texts for word in part.split()}
        given |= set(re.findall(r'classList\.(?:add|toggle)\("([\w-]+)"', text))
        sought |= set(re.findall(r'classList\.contains\("([\w-]+)"', text))
        queries = re.findall(r'(?:querySelector(?:All)?|closest)\("([^"]*)"', text)
        sought |= set(re.findall(r"\.([\w-]+)", " ".join(queries)))
    given |= set(INDEX.values("class")) | set(DOCS.values("class"))
    assert len(given) > 60
    assert given - styled - sought == set()


def test_every_custom_property_is_set_and_used() -> None:
    styles = "\n".join(STYLES.values())
    scripted = set(re.findall(r'setProperty\("(--\w+)"', "\n".join(SCRIPTS.values())))
    assert scripted.union(re.findall(r"(--[\w-]+):", styles)) == set(
        re.findall(r"var\((--[\w-]+)", styles)
    )


def test_every_script_and_style_is_loaded_and_every_one_loaded_is_there() -> None:
    loaded: set[str] = set()
    for markup in (INDEX, DOCS):
        links = markup.values("href") + markup.values("src")
        loaded |= {link.removeprefix("/static/") for link in links if link.startswith("/static/")}
    for text in SCRIPTS.values():
        loaded |= {f"js/{name}" for name in re.findall(r'from "\./(\w+\.js)"', text)}
    loaded |= {"icon.svg", "icon-192.png", "icon-512.png"}  # by the manifest
    pages = {"index.html", "docs.html"}
    assert loaded | pages == {name for name in files() if not name.endswith((".d.ts", ".json"))}


def files() -> set[str]:
    return {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}


def test_the_wheel_holds_the_whole_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["cbcl.web"]
    left_out = {
        name
        for name in files()
        if not any(fnmatch(f"static/{name}", pattern) for pattern in patterns)
    }
    assert left_out == {"js/types.d.ts"}  # for the checks only


def test_every_script_is_checked() -> None:
    assert [name for name, text in SCRIPTS.items() if not text.startswith("// @ts-check\n")] == []
