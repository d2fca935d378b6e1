"""The limits in SECURITY.md are those of the source."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "SECURITY.md").read_text()
MODEL = PAGE[PAGE.index("## Threat model") :]
LIMIT = re.compile(r"([\d.,]*\d)(?: (MB|KiB|MiB|GiB)\b)?[^`|()]*\(`([\w.]+)\.([A-Z_]+)`\)")
UNITS = {"": 1, "MB": 10**6, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MODULE = re.compile(r"`((?:memory|vision|web|\.ci)/[\w/.]*)`")


@pytest.mark.parametrize(("number", "unit", "module", "name"), LIMIT.findall(MODEL))
def test_a_limit_is_that_of_the_source(number: str, unit: str, module: str, name: str) -> None:
    stated = float(number.replace(",", "")) * UNITS[unit]
    whole = module if module.startswith("cbcl_study.") else f"cbcl.{module}"
    assert stated == getattr(import_module(whole), name)


def test_no_number_is_without_the_name_of_its_limit() -> None:
    rest = LIMIT.sub("", MODEL.replace("SHA-256", ""))
    assert re.findall(r"\d+", rest) == []


@pytest.mark.parametrize("place", sorted(set(MODULE.findall(MODEL))))
def test_a_place_that_is_named_exists(place: str) -> None:
    root = Path(__file__).parents[2]
    assert (root / place).exists() or (root / "src" / "cbcl" / place).exists()
