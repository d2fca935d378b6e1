"""Words of the page: the language that a browser asks for, and the page written in it."""

from __future__ import annotations

import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import TypeAlias

Words: TypeAlias = dict[str, str | dict[str, str]]  # by key; one a plural form where there are more

DEFAULT_LANGUAGE = "en"
RIGHT_TO_LEFT = frozenset({"ar", "fa", "he", "ur"})
WISH = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]+)?\s*(?:;\s*q=([01](?:\.\d*)?))?\s*")
TEXT = re.compile(r'(<(\w+)\b[^<>]*\sdata-say="([\w.]+)"[^<>]*>)(</\2>)')
ATTRIBUTE = re.compile(r'data-say-([\w-]+)="([\w.]+)"')
DATA = '<script type="application/json" id="words">'


def choose_language(accepted: str) -> str:
    """Return the language of ours that an Accept-Language header likes best.

    >>> choose_language("xx-CH, xx;q=0.9, en;q=0.8")
    'en'
    """
    matches = [WISH.fullmatch(part) for part in accepted[:1000].split(",")]
    wishes = [(float(match[2] or 1), match[1].lower()) for match in matches if match]
    known = [(weight, name) for weight, name in wishes if weight > 0 and name in languages()]
    return max(known, key=lambda wish: wish[0], default=(1.0, DEFAULT_LANGUAGE))[1]


@cache
def languages() -> dict[str, Words]:
    """Return all words by language; what a language lacks is there in English."""
    folder = files("cbcl.web").joinpath("static", "words")
    tables: dict[str, Words] = {
        file.name.removesuffix(".json"): json.loads(file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }
    english = tables[DEFAULT_LANGUAGE]
    return {name: {**english, **words} for name, words in tables.items()}


def write_words(page: str, words: Words) -> str:
    """Return markup with words as the texts of its elements.

    >>> write_words('<p data-say="cancel"></p>', {"cancel": "Cancel"})
    '<p data-say="cancel">Cancel</p>'
    """
    return TEXT.sub(lambda match: f"{match[1]}{escape(str(words[match[3]]))}{match[4]}", page)


@cache
def page_in(language: str) -> bytes:
    """Return index.html with the words of a language in it, for people and for scripts."""
    words = languages()[language]
    page = write_words(files("cbcl.web").joinpath("static", "index.html").read_text("utf-8"), words)
    page = ATTRIBUTE.sub(lambda match: f'{match[1]}="{escape(str(words[match[2]]))}"', page)
    direction = "rtl" if language in RIGHT_TO_LEFT else "ltr"
    page = page.replace('<html lang="en">', f'<html lang="{language}" dir="{direction}">', 1)
    data = json.dumps(words, ensure_ascii=False).replace("<", "\\u003c")
    return page.replace(DATA, DATA + data, 1).encode()
