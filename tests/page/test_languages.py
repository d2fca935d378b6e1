"""Words of the page: all in one place, each used, complete in every language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.api import Page

import cbcl
from cbcl.export.words import choose_language, languages

pytest_plugins = ["support.api_fixtures"]

STATIC = Path(cbcl.__file__).parent / "web" / "static"
APP = Path(cbcl.__file__).parent / "export" / "static"  # which says the same words, and a few more
SCRIPTS = {path.name: path.read_text() for path in sorted((STATIC / "js").glob("*.js"))}
MARKUP = (STATIC / "index.html").read_text()
TABLES = {path.stem: json.loads(path.read_text()) for path in (STATIC / "words").glob("*.json")}
ENGLISH = TABLES["en"]
PLURALS = {"ar": {"zero", "one", "two", "few", "many", "other"}}  # else one and other


def keys_used() -> tuple[set[str], set[str]]:
    """Return the keys in markup and scripts, and the beginnings of those put together."""
    markup = MARKUP + (APP / "index.html").read_text()
    used = set(re.findall(r'data-say(?:-[\w-]+)?="([\w.]+)"', markup))
    begun: set[str] = set()
    for text in (*SCRIPTS.values(), *(path.read_text() for path in (APP / "js").glob("*.js"))):
        used |= set(re.findall(r'"((?:[a-z_]+\.)?[a-z_0-9]+)"', text))
        begun |= set(re.findall(r"say\(`([\w.]+)\$\{", text))
    return used, begun


def forms_of(words: str | dict[str, str]) -> dict[str, str]:
    return {"": words} if isinstance(words, str) else words


def test_every_key_that_is_said_has_words() -> None:
    said = set(re.findall(r'data-say(?:-[\w-]+)?="([\w.]+)"', MARKUP))
    for text in SCRIPTS.values():
        said |= set(re.findall(r'\bsay(?:Nodes)?\(\s*"([\w.]+)"', text))
    assert len(said) > 120
    assert said - set(ENGLISH) == set()


def test_every_word_is_used() -> None:
    used, begun = keys_used()
    assert {key for key in set(ENGLISH) - used if not key.startswith(tuple(begun))} == set()


def test_the_markup_has_no_words_of_its_own() -> None:
    body = re.sub(r"<kbd>.*?</kbd>|<title.*?</title>", "", MARKUP)
    texts = [text.strip() for text in re.findall(r">([^<>]+)<", body)]
    assert {text for text in texts if re.search(r"[A-Za-z]", text)} == {"cbcl"}
    assert re.findall(r' (?:title|alt|placeholder|aria-label)="[^"]', MARKUP) == []


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_language_is_complete(name: str) -> None:
    table = TABLES[name]
    assert list(table) == sorted(ENGLISH)
    for key, words in table.items():
        english = forms_of(ENGLISH[key])
        forms = forms_of(words)
        if "" not in english:
            assert set(forms) >= PLURALS.get(name, {"one", "other"}), key
        wanted = set(re.findall(r"\{\w+\}", english.get("other", english.get("", ""))))
        for form, text in forms.items():
            found = set(re.findall(r"\{\w+\}", text))
            assert text.strip(), key
            assert found == wanted or (form in ("zero", "one", "two") and found < wanted), key


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("en-GB,en;q=0.9", "en"),
        ("xx", "en"),
        ("en;q=0", "en"),
        ("*", "en"),
        (";;;q=,,", "en"),
        ("EN-us;q=0.1, xx", "en"),
    ],
)
def test_a_browser_gets_a_language_that_there_is(header: str, language: str) -> None:
    assert choose_language(header) == language


def test_the_page_is_written_in_the_language(page: Page) -> None:
    for name in languages():
        response = page.get("/", headers={"Accept-Language": f"{name}, en;q=0.5"})
        assert f'<html lang="{name}" dir=' in response.text
        assert "Accept-Language" in response.headers["vary"]
        data = re.search(r'id="words">(.*?)</script>', response.text)
        assert data
        assert json.loads(data[1]) == languages()[name]
        plain = re.sub(r"<script.*?</script>", "", response.text)
        assert re.findall(r'data-say="[\w.]+"></', plain) == []
        assert "data-say-" not in plain
