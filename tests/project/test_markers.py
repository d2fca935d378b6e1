"""The list of marked tests names tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.markers import MARKED

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("place", [place for marked in MARKED.values() for place in marked])
def test_what_is_marked_exists(place: str) -> None:
    file, _, test = place.partition("::")
    assert (ROOT / file).exists()
    assert not test or f"def {test}(" in (ROOT / file).read_text()
