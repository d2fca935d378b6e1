"""The device that networks run on: chosen by argument or environment, or refused in a sentence."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from cbcl import WeightsError, load_backbone
from cbcl.vision.backbones.combined import leaves
from cbcl.vision.backbones.network import Network


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite0@2views"])
def test_networks_are_on_the_processor_unless_asked_otherwise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for device in ("", "cpu"):
        monkeypatch.setenv("CBCL_DEVICE", device)
        parts = [*leaves(load_backbone(name))]  # type: ignore[arg-type]
        assert {part.device for part in parts if isinstance(part, Network)} == {"cpu"}


def test_a_device_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WeightsError, match="device 'gpu' is unknown: give cpu or cuda"):
        load_backbone("efficientnet-lite0", device="gpu")
    problem = "PyTorch finds none" if find_spec("torch") else r'pip install "cbcl\[torch\]"'
    with pytest.raises(WeightsError, match=problem):
        load_backbone("efficientnet-lite0", device="cuda")
    monkeypatch.setenv("CBCL_DEVICE", "cuda")
    with pytest.raises(WeightsError, match=problem):
        load_backbone("efficientnet-lite0")


def test_other_backbones_have_no_device() -> None:
    assert load_backbone("pixels", device="cpu").name == "pixels"
