"""Labels that people type: those that are not known, and those that differ only in their spelling.

`as_label` has stripped them of the space around them before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from cbcl.errors import LabelError
from cbcl.memory.indexes import spelling
from cbcl.memory.rows import MAX_LETTERS, as_label

__all__ = ["MAX_LETTERS", "as_label", "check_known", "find_like", "find_same_spelling"]

MAX_SUGGESTED = 3  # labels like one that is not known
MAX_LISTED = 10  # labels, where none is like it


def check_known(label: str, labels: Collection[str]) -> None:
    """Raise LabelError, with labels like it, unless a label is known.

    >>> check_known("cupp", ["cup", "key"])
    Traceback (most recent call last):
    cbcl.errors.LabelError: 'cupp' is not known: did you mean 'cup'?
    """
    if label in labels:
        return
    if near := find_like(label, labels):
        advice = f"did you mean {' or '.join(map(repr, near))}?"
        raise LabelError(repr(label), "is not known", advice)
    listed = [repr(known) for known in labels][:MAX_LISTED]
    more = ["others"] if len(labels) > MAX_LISTED else []
    known = f"; there are {', '.join([*listed, *more])}" if listed else ""
    raise LabelError(repr(label), f"is not known{known}")


def find_like(label: str, labels: Iterable[str]) -> list[str]:
    """Return the labels most like one, or with all its words in them, whatever their case.

    >>> find_like("CUPS", ["key", "cup", "Cup"])
    ['cup', 'Cup']
    >>> find_like("cup", ["a large tea cup with a saucer"])
    ['a large tea cup with a saucer']
    """
    by_spelling, wanted = _by_spelling(labels), spelling(label)
    near = get_close_matches(wanted, by_spelling, MAX_SUGGESTED)
    longer = [known for known in by_spelling if {*wanted.split()} <= {*known.split()}]
    near = [*dict.fromkeys([*near, *longer])]
    return [known for own in near for known in by_spelling[own]][:MAX_SUGGESTED]


def find_same_spelling(new: Iterable[str], labels: Iterable[str]) -> dict[str, str]:
    """Return those new labels that differ from another one only in case or space, with that one.

    >>> find_same_spelling(["Cup", "key"], ["Cup", "cup", "key"])
    {'Cup': 'cup'}
    """
    wanted = {*map(spelling, new)}
    by_spelling = _by_spelling(sorted(label for label in labels if spelling(label) in wanted))
    pairs: dict[str, str] = {}
    for label in new:
        others = [known for known in by_spelling[spelling(label)] if known not in (label, *pairs)]
        if others:
            pairs[label] = others[0]
    return pairs


def _by_spelling(labels: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(spelling(label), []).append(label)
    return groups
