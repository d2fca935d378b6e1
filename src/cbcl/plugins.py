"""Entry points of other packages: objects found by name, loaded, and checked."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from cbcl.errors import CBCLError, PluginError


def plugin_names(group: str) -> list[str]:
    """Return the names of the entry points of a group."""
    return sorted(entry_points(group=group).names)


def load_plugin(
    group: str, name: str, noun: str, *kinds: type[Any], error: type[CBCLError] = PluginError
) -> Any | None:
    """Return what an entry point names, of one of these types; None: there is no such name.

    Whatever fails is the error, about the noun and the name. It has no path in it, since a server
    tells it: of what another package raises, it has the type alone, unless an import failed.
    """
    point = next(iter(entry_points(group=group, name=name)), None)
    if point is None:
        return None
    subject = f"{noun} {name!r}"
    advice = f"update or uninstall {point.dist.name}" if point.dist else ""
    try:
        found = point.load()
    except (Exception, SystemExit) as problem:  # of another package: it may be any
        told = type(problem).__name__
        if isinstance(problem, ImportError):
            told = problem.msg.partition(" (")[0]  # and the file
        raise error(subject, f"cannot be loaded from {point.value} ({told})", advice) from problem
    if not isinstance(found, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise error(subject, f"is {point.value}, which is not a {names}", advice)
    return found
