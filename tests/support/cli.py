"""The command line, run in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from cbcl.cli.commands import main


def run(*words: object) -> Result:
    """Run a command of cbcl."""
    return CliRunner().invoke(main, [*map(str, words)])


def said(*words: object) -> str:
    """Run a command that must succeed, and return its output."""
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output
