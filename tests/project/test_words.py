"""The words of the code: one meaning a name, and plain docstrings. (ruff checks the mood: D401.)"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import cbcl
from cbcl import errors
from cbcl.heads.base import BUILT_IN

SOURCE = Path(cbcl.__file__).parent
FILES = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("*.py")}
Documented: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def type_names(tree: ast.Module) -> Iterator[str]:
    """Yield the types that a module defines: classes and aliases."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)


def test_only_heads_and_their_method_know_a_head_by_name() -> None:
    """No comparison, key or type outside asks which head it is: a head says what it can do."""
    names = {*BUILT_IN}
    found = set()
    for file, text in FILES.items():
        if file.startswith(("heads/", "method/")):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and node.value in names:
                found.add((file, node.value))
    functions = ("__init__.py", "vote")  # of the paper, among the public names
    example = ("web/schemas.py", "discriminant")  # in the description of the API
    assert found == {functions, example}


def test_no_type_name_is_defined_twice() -> None:
    homes = defaultdict(list)
    for file, text in FILES.items():
        for name in type_names(ast.parse(text)):
            homes[name].append(file)
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def docstrings() -> Iterator[tuple[str, str]]:
    for file, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, Documented):
                yield file, ast.get_docstring(node) or ""


def test_docstrings_are_imperatives_or_noun_phrases() -> None:
    vague = re.compile(r"(What|Where|Whether|How far)\b")
    assert [(file, text) for file, text in docstrings() if vague.match(text)] == []


def test_only_the_errors_module_asks_the_system_for_its_reason() -> None:
    assert [file for file, text in FILES.items() if ".strerror" in text] == ["errors.py"]


def test_every_error_that_is_raised_names_its_subject_and_its_problem() -> None:
    kinds = {name for name in vars(errors) if name.endswith("Error")}
    for file, text in FILES.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in kinds:
                assert len(node.args) >= 2, f"{file}:{node.lineno}: {ast.unparse(node)}"


def test_an_error_of_somebody_elses_may_be_one_sentence() -> None:
    error = errors.PictureError("The camera is off.")
    assert (str(error), error.public, error.about("x.jpg")) == (
        "The camera is off.",
        "The camera is off.",
        "x.jpg.",
    )
