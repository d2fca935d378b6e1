"""Backbones of other packages: found by their entry points, and told where they are not there."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest
from support.cli import run
from support.packages import install
from support.photos import photo

from cbcl import BackboneError, Recognizer, WeightsError, load_backbone, plugins
from cbcl.vision.backbones import list_backbones
from cbcl.vision.backbones.catalogue import STUDY_BACKBONES, import_network, is_catalogued

PAGE = (Path(__file__).parents[2] / "docs" / "backbones.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(from cbcl import load_backbone\n.*?)```", PAGE, re.DOTALL)
CODE = f"{EXAMPLE}\nNUMBER = 7\n"


@pytest.fixture
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"colours": "COLOURS", "number": "NUMBER", "nothing": "NONE"}
    points = {name: f"colour_backbones:{attribute}" for name, attribute in names.items()}
    points["absent"] = "no_such_module:X"
    install(monkeypatch, tmp_path, "colour_backbones", CODE, cbcl_backbones=points)


@pytest.mark.usefixtures("_plugins")
def test_a_backbone_of_another_package_is_loaded_by_its_name(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "a.cbcl", "colours", cache=False) as recognizer:
        recognizer.learn("cup", [photo("coffee")])
    with Recognizer(tmp_path / "a.cbcl", cache=False) as again:  # the memory names it
        assert again.embed(photo("rocket")).shape == (1, 3)


def test_a_memory_whose_backbone_has_gone_asks_for_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "a.cbcl"
    points = {"colours": "colours_gone:COLOURS"}
    with monkeypatch.context() as installed:
        install(installed, tmp_path, "colours_gone", CODE, cbcl_backbones=points)
        with Recognizer(memory, "colours", cache=False) as recognizer:
            recognizer.learn("cup", [photo("coffee")])
    told = "through colours, which is not installed here: install the package that has it"
    with Recognizer(memory, cache=False) as again, pytest.raises(BackboneError, match=told):
        again.recognize(photo("rocket"))


def test_a_backbone_of_another_package_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"colours": "colour_list:COLOURS"}
    install(monkeypatch, tmp_path, "colour_list", CODE, cbcl_backbones=points)
    assert ("colours", "3", "yes", "none: the mean colour") in list_backbones()
    assert not is_catalogued("colours")
    with pytest.raises(WeightsError, match=r"'colour' is unknown: there are .*colours, "):
        load_backbone("colour")


@pytest.mark.usefixtures("_plugins")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "number",
            r"is colour_backbones:NUMBER, which is not a CatalogueEntry or ListedBackbone: update",
        ),
        ("nothing", r"cannot be loaded from colour_backbones:NONE \(AttributeError\): update or"),
        ("absent", r"cannot be loaded from no_such_module:X \(No module named 'no_such_module'\)"),
    ],
)
def test_an_entry_point_that_is_no_backbone_is_told(name: str, problem: str) -> None:
    with pytest.raises(WeightsError, match=f"backbone '{name}' {problem}"):
        load_backbone(name)


@pytest.mark.usefixtures("_plugins")
def test_a_broken_backbone_does_not_hide_the_others() -> None:
    result = run("backbones", "list")
    assert "colours\t3\tyes" in result.output
    assert "efficientnet-lite0\t" in result.output
    for name in ("absent", "nothing", "number"):
        assert f"skipped: backbone '{name}' " in result.output
    assert result.exit_code == 1
    with pytest.raises(WeightsError, match=r"backbone 'lite' is unknown: there are .*colours, "):
        load_backbone("lite")


def test_a_backbone_of_the_study_is_told_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Recognizer(tmp_path / "a.cbcl", "pixels", cache=False) as recognizer:
        recognizer.learn("cup", [photo("coffee")])
    before = {name: is_catalogued(name) for name in STUDY_BACKBONES}
    monkeypatch.setattr(plugins, "entry_points", lambda **_: EntryPoints())
    assert before == {name: is_catalogued(name) for name in STUDY_BACKBONES}
    for name in STUDY_BACKBONES:
        for whole in (name, f"{name}@2views", f"efficientnet-lite0+{name}"):
            with pytest.raises(WeightsError, match=f"'{name}' is in a package .* cbcl-study"):
                load_backbone(whole)
    with pytest.raises(WeightsError, match="install cbcl-study"):
        import_network("vgg16", tmp_path / "vgg16.ckpt")
    with Recognizer(tmp_path / "a.cbcl") as again:
        told = "was learned through pixels, which cannot be loaded: .*install cbcl-study"
        with pytest.raises(BackboneError, match=told):
            again.recognize(photo("rocket"))
        assert [*again.labels()] == ["cup"]
