"""State of frozen dataclasses with cached properties: what pickles and copies of them hold."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def field_state(value: Any) -> dict[str, Any]:
    """Return the fields: what a value was made of, without what was computed from them since.

    A class takes it as its `__getstate__`.
    """
    return {field.name: getattr(value, field.name) for field in fields(value)}
