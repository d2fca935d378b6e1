"""No test, and no example in a docstring, touches the user's own files; some tests are marked."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from support.demo import DemoRun, run_demo
from support.markers import markers_of

# Before any test imports ONNX Runtime: see backbones/network.py.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# No test is timed: a busy machine must not fail one.
hypothesis.settings.register_profile("cbcl", deadline=None)
hypothesis.settings.load_profile("cbcl")

# The first needs mkdocs (`make docs` runs it); the others are plugins of tests that name them.
FIXTURES = sorted(Path(__file__).parent.glob("tests/support/*_fixtures.py"))
collect_ignore = ["docs/site_hooks.py", *FIXTURES]
PACKAGE = Path(__file__).parent / "src" / "cbcl"
RIVALS = Path(__file__).parent / "study" / "src" / "cbcl_study" / "rivals"
if find_spec("torch") is None:
    collect_ignore += [*PACKAGE.glob("*/torch_*.py")]
    collect_ignore += [RIVALS / "deep", RIVALS / "fearnet.py", RIVALS / "mlp.py"]
elif find_spec("triton") is None:
    collect_ignore += [RIVALS / "deep" / "kernels.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in markers_of(item.nodeid):
            item.add_marker(marker)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBCL_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def _folder(
    request: pytest.FixtureRequest,
    doctest_namespace: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doctest_namespace["folder"] = tmp_path
    if request.node.path.suffix == ".md":
        monkeypatch.chdir(tmp_path)  # the examples of a page write where its reader is


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """Run examples/demo.py once for all tests about it."""
    return run_demo(tmp_path_factory.mktemp("work"))
