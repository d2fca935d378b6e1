"""Commands of other packages: offered where they are installed, skipped where they are broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import run, said
from support.packages import install

CODE = """
    import click
    NUMBER = 7

    @click.command()
    def greet():
        \"\"\"Greet the reader.\"\"\"
        click.echo("hello")
"""


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"greet": "greeting:greet", "number": "greeting:NUMBER", "absent": "no_such_module:x"}
    install(monkeypatch, tmp_path, "greeting", CODE, cbcl_commands=points)


def test_a_broken_command_does_not_hide_the_others() -> None:
    told = " ".join(said("--help").split())
    assert "greet Greet the reader." in told
    assert "learn Learn labels from photos in folders." in told
    assert "number skipped: command 'number' is greeting:NUMBER, which is not a Command" in told
    assert "absent skipped: command 'absent' cannot be loaded from no_such_module:x" in told
    assert said("greet") == "hello\n"


@pytest.mark.parametrize("name", ["number", "absent"])
def test_a_broken_command_fails_with_one_sentence(name: str) -> None:
    for words in ([], ["--help"], ["--such", "photo.jpg"]):
        result = run(name, *words)
        assert result.exit_code == 1
        assert f"command '{name}' " in result.output
        assert result.output.endswith("update or uninstall greeting.\n")
        assert len(result.output.strip().splitlines()) == 1
