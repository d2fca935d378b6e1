"""The public names: the ones that are promised, typed, and shown by an example."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import cbcl
from cbcl import CBCLError

ROOT = Path(__file__).parents[2]

NAMES = [
    "Answer",
    "BackboneError",
    "CBCLClassifier",
    "CBCLError",
    "Client",
    "DataError",
    "DiscriminantClassifier",
    "LabelError",
    "MemoryFileError",
    "PictureError",
    "Recognizer",
    "Snapshot",
    "WeightsError",
    "__version__",
    "agg_var",
    "load_backbone",
    "reduce",
    "tune",
    "vote",
]
USES = [
    "cbcl.CBCLClassifier().fit([[0.0]], ['cup']).predict([[0.0]])",
    "cbcl.CBCLClassifier().explain([[0.0]])",
    "cbcl.DiscriminantClassifier().fit([[0.0]], ['cup']).predict_proba_open([[0.0]])",
    "cbcl.DiscriminantClassifier().explain([[0.0]])",
    "cbcl.Recognizer('things.cbcl').recognize('new.jpg')",
    "cbcl.Recognizer('things.cbcl').recognize('new.jpg').ranking[0].label",
    "cbcl.Recognizer('things.cbcl').learn('cup', ['1.jpg']).totals",
    "cbcl.Recognizer('things.cbcl').labels()",
    "cbcl.Recognizer('things.cbcl').snapshot()",
    "cbcl.Recognizer('things.cbcl').snapshot().suspects('new.jpg')[0].answer",
    "cbcl.vote([[0.0]], [cbcl.agg_var([[0.0]], 1.0)], 1)",
    "cbcl.tune([[[0.0]]]).radius",
]
# Of numpy's own types: the shape of an array, and what can be turned into one. And the one type of
# ours that is open by intent: a function of the user's may be a backbone of whatever it takes.
OPEN_TYPES = ["tuple[Any, ...]", "numpy.dtype[Any]", "typing.Sequence[Any]"]


def test_exactly_the_promised_names_are_public() -> None:
    assert cbcl.__all__ == NAMES
    assert dir(cbcl) == cbcl.__all__
    assert all(getattr(cbcl, name) is not None for name in NAMES)
    with pytest.raises(AttributeError, match="no attribute 'cbcl'"):
        _ = cbcl.cbcl


@pytest.mark.parametrize("name", [name for name in NAMES if name != "__version__"])
def test_every_name_has_an_example_that_runs_as_a_doctest(name: str) -> None:
    public = getattr(cbcl, name)
    is_error = isinstance(public, type) and issubclass(public, CBCLError)
    assert public.__doc__
    shown = CBCLError.__doc__ if is_error else public.__doc__  # one example for all errors
    assert ">>>" in str(shown)


def types_in(hint: Any) -> set[type]:
    """Return our types in a type hint, and in the fields of those that are tuples."""
    if isinstance(hint, type) and hint.__module__.startswith("cbcl."):
        fields = get_type_hints(hint) if hasattr(hint, "_fields") else {}
        return {hint, *(one for part in fields.values() for one in types_in(part))}
    return {one for part in get_args(hint) for one in types_in(part)}


@pytest.mark.parametrize(
    "name",
    [
        "CBCLClassifier",
        "DiscriminantClassifier",
        "Recognizer",
        "Snapshot",
        "agg_var",
        "load_backbone",
        "reduce",
        "tune",
        "vote",
    ],
)
def test_every_type_that_is_taken_or_returned_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    public = getattr(cbcl, name)
    members = inspect.getmembers(public) if isinstance(public, type) else [(name, public)]
    for own, member in members:
        function = getattr(member, "fget", member)
        is_made_by_users = own == "__init__" and name != "Snapshot"
        is_public = is_made_by_users or not own.startswith("_")
        if not is_public or not inspect.isroutine(function):
            continue
        for hint in get_type_hints(function).values():
            for kind in types_in(hint):
                shown = f"::: {kind.__module__}.{kind.__name__}\n" in page
                assert shown or kind.__name__ in NAMES, f"{kind.__name__}, of {name}.{own}"


def test_a_type_checker_sees_the_type_of_every_name_and_result(tmp_path: Path) -> None:
    made_by_users = [name for name in NAMES if name != "Snapshot"]
    expressions = [*(f"cbcl.{name}" for name in made_by_users), *USES]
    code = tmp_path / "uses.py"
    code.write_text("\n".join(["import cbcl", *(f"reveal_type({use})" for use in expressions)]))
    cache = str(tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, str(code)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(expressions), done.stdout + done.stderr
    for expression, kind in zip(expressions, revealed, strict=True):
        for open_type in OPEN_TYPES:
            kind = kind.replace(open_type, "")
        assert not re.search(r"\bAny\b", kind), f"{expression}: {kind}"
