"""Loading the page: bundles of the files as they are, compressed, and asked for once."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from support.api import Page

import cbcl
from cbcl import __version__
from cbcl.web.bundles import BundleError, bundle_page, link_bundles
from cbcl.web.static_files import PAGES

pytest_plugins = ["support.api_fixtures"]

STATIC = Path(cbcl.__file__).parent / "web" / "static"
FILES = {
    path.relative_to(STATIC).as_posix(): path.read_text()
    for folder in ("css", "js")
    for path in (STATIC / folder).iterdir()
}
PLAIN = {"Accept-Encoding": "identity"}
PAGE = """<head>
  <link rel="stylesheet" href="/static/css/a.css">
  <link rel="stylesheet" href="/static/css/b.css">
  <script src="/static/js/first.js"></script>
  <script type="module" src="/static/js/main.js"></script>
</head>
"""


def bundle(**modules: str) -> dict[str, str]:
    files = {f"js/{name}.js": text for name, text in modules.items()}
    return bundle_page("page.html", PAGE, {"css/a.css": "a {}\n", "css/b.css": "b {}\n", **files})


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_bundled(name: str) -> None:
    bundles = bundle_page(name, (STATIC / name).read_text(), FILES)
    linked = link_bundles(name, (STATIC / name).read_text())
    assert {*re.findall(r"/static/(bundle/[\w.-]+)", linked)} <= {*bundles}
    (script,) = (text for path, text in bundles.items() if path.endswith(".js"))
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_a_page_loads_one_script_and_one_style_sheet() -> None:
    assert link_bundles("page.html", PAGE) == (
        "<head>\n"
        '  <link rel="stylesheet" href="/static/bundle/page.css">\n'
        '  <script src="/static/js/first.js"></script>\n'
        '  <script type="module" src="/static/bundle/main.js"></script>\n'
        "</head>\n"
    )


def test_modules_come_after_those_they_need_and_styles_in_their_order() -> None:
    bundles = bundle(
        main='import { x, y as z } from "./one.js";\nimport * as all from "./two.js";\nx(z, all);',
        one='import {\n  w,\n} from "./two.js";\n\nexport function x() {}\nexport const y = w;\n',
        two="export class w {}\n",
    )
    assert bundles["bundle/page.css"] == "/* a.css */\na {}\n\n/* b.css */\nb {}\n"
    assert bundles["bundle/main.js"] == (
        "const $two = await (async () => {\nclass w {}\nreturn { w };\n})();\n"
        "const $one = await (async () => {\nconst {\n  w,\n} = $two;\n\nfunction x() {}\n"
        "const y = w;\nreturn { x, y };\n})();\n"
        "const $main = await (async () => {\nconst { x, y: z } = $one;\nconst all = $two;\n"
        "x(z, all);\nreturn {  };\n})();\n"
        "//# sourceMappingURL=main.js.map\n"
    )


def test_the_map_leads_from_each_line_back_to_its_file() -> None:
    bundles = bundle(
        main='import { y } from "./one.js";\nconsole.log(y);\n', one="\n\nexport const y = 1;\n"
    )
    script = bundles["bundle/main.js"].split("\n")
    sections = json.loads(bundles["bundle/main.js.map"])["sections"]
    assert [section["map"]["sources"] for section in sections] == [
        ["../js/one.js"],
        ["../js/main.js"],
    ]
    one, main = sections
    assert one["map"]["sourcesContent"] == ["\n\nexport const y = 1;\n"]
    assert one["map"]["mappings"] == "AAAA;AACA;AACA"  # each line is one behind the line before
    assert script[one["offset"]["line"] + 2] == "const y = 1;"
    assert script[main["offset"]["line"] + 1] == "console.log(y);"


@pytest.mark.parametrize(
    "source",
    [
        "export default 1;\n",
        "export let x = 1;\n",
        'export { x } from "./one.js";\n',
        'import x from "./one.js";\n',
        'const x = () => import("./one.js");\n',
        'import { x } from "./none.js";\n',
        'import { x } from "./main.js";\n',
    ],
)
def test_what_cannot_be_bundled_is_named(source: str) -> None:
    with pytest.raises(BundleError, match=r"main\.js|none\.js"):
        bundle(main=source, one="")


def test_comments_about_imports_are_no_imports() -> None:
    assert bundle(main='/** @param {import("./types.d.ts").A} a */\n// import("./b.js")\n')


@pytest.mark.parametrize(
    "address",
    ["/", "/api/docs", "/static/bundle/index.css", "/static/bundle/main.js", "/static/icon.svg"],
)
def test_text_is_compressed_for_who_takes_it(page: Page, address: str) -> None:
    plain = page.get(address, headers=PLAIN)
    packed = page.get(address, headers={"Accept-Encoding": "br, gzip;q=0.8"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < 0.7 * int(plain.headers["content-length"])
    assert {"Accept-Encoding"} <= {*packed.headers["vary"].split(", ")}
    refusal = page.get(address, headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "content-encoding" not in refusal.headers


def test_each_encoding_has_its_own_tag(page: Page) -> None:
    address = "/static/bundle/main.js"
    tags = {}
    for encoding in ("gzip", "identity"):
        headers = {"Accept-Encoding": encoding}
        tags[encoding] = page.get(address, headers=headers).headers["etag"]
        for known in (tags[encoding], f'"x", W/{tags[encoding]}'):
            again = page.get(address, headers={**headers, "If-None-Match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == tags[encoding]
    assert tags["gzip"] != tags["identity"]
    other = page.get(address, headers={**PLAIN, "If-None-Match": tags["gzip"]})
    assert other.status_code == 200


def test_answers_of_the_api_and_pictures_are_not_compressed(taught: Page) -> None:
    for address in ("/api/labels", "/api/access", "/static/icon-512.png"):
        answer = taught.get(address, headers={"Accept-Encoding": "gzip"})
        assert "content-encoding" not in answer.headers


def test_the_files_are_there_one_by_one_and_no_others(page: Page) -> None:
    assert page.get("/static/js/main.js").text == (STATIC / "js" / "main.js").read_text()
    source_map = page.get("/static/bundle/main.js.map").json()
    assert source_map["sections"][-1]["map"]["sources"] == ["../js/main.js"]
    for name in ("js/types.d.ts", "js", "bundle", "bundle/x.js", "../app.py", "%2e%2e/app.py", ""):
        assert page.get(f"/static/{name}").status_code == 404, name


def test_the_first_page_waits_for_no_routes_to_be_built(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a route is built while a page waits")

    monkeypatch.setattr(TypeAdapter, "__init__", refuse)
    for address in ("/", "/api/health", "/api/labels"):
        assert page.get(address).status_code == 200


def test_what_the_page_shows_first_is_asked_for_before_its_script_runs() -> None:
    head = (STATIC / "index.html").read_text().partition("</head>")[0]
    ahead = re.findall(r'<link rel="preload" href="([^"]+)" as="fetch" crossorigin>', head)
    assert ahead == ["/api/labels", "/api/health"]
    asked = "".join(text for path, text in FILES.items() if path.startswith("js/"))
    assert all(f'get("{address}")' in asked for address in ahead)


def test_the_page_says_its_version(page: Page) -> None:
    assert f'<span id="version">cbcl {__version__}</span>' in page.get("/").text


def test_the_compressed_page_is_what_was_compressed(page: Page) -> None:
    with page.http.stream("GET", "/", headers={"Accept-Encoding": "gzip"}) as answer:
        assert gzip.decompress(b"".join(answer.iter_raw())) == page.get("/", headers=PLAIN).content
