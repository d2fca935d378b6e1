"""Networks in PyTorch: modules become backbones, and timm's models with timm's preprocessing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.photos import NAMES, photo

from cbcl.errors import WeightsError
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.pytorch import TorchNetwork, from_module, load_timm, preprocessing_of
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing
from cbcl_study.data.vectors import features

SMALL = Preprocessing(32, (127.0, 127.0, 127.0), (128.0, 128.0, 128.0))
CONFIG = {
    "input_size": (3, 224, 224),
    "interpolation": "bicubic",
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
    "crop_pct": 0.95,
    "crop_mode": "center",
}


def photographs() -> list[Image.Image]:
    return [photo(name) for name in NAMES]


def small(seed: int = 0) -> Any:
    """Six features, with a batch norm and a dropout, which must not be training."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(3, 6, 3),
        layers.BatchNorm2d(6),
        layers.Dropout(),
        layers.AdaptiveAvgPool2d(1),
        layers.Flatten(),
    )


def timm_network(name: str = "resnet18", **config: Any) -> TorchNetwork:
    """As `load_timm` makes it, but of random weights: no test downloads any."""
    pytest.importorskip("torch")
    timm = imported_timm()
    from timm.data import resolve_model_data_config

    module = timm.create_model(name, pretrained=False, num_classes=0, **config)
    return from_module(
        f"timm/{name}", module, preprocessing_of(resolve_model_data_config(module), name)
    )


def imported_timm() -> Any:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # the latter: torchvision for another PyTorch
        pytest.skip(f"timm cannot be imported: {error}")
    return timm


def test_timms_description_in_our_terms() -> None:
    made = preprocessing_of(CONFIG, "resnet18")
    assert made.mean == pytest.approx((123.675, 116.28, 103.53))
    assert made.scale == pytest.approx((58.395, 57.12, 57.375))
    assert (made.size, made.square, made.filter, made.channels) == (224, 0.95, "bicubic", "RGB")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"input_size": (1, 224, 224)},
            "net takes pictures of 1 x 224 x 224, not colours in a square",
        ),
        ({"input_size": (3, 224, 320)}, "net takes pictures of 3 x 224 x 320"),
        ({"interpolation": "random"}, "timm's description of net makes no sense"),
    ],
)
def test_pictures_that_we_do_not_make_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        preprocessing_of(CONFIG | change, "net")


@pytest.mark.parametrize("name", ["resnet18", "timm/resnet18"])
def test_without_timm_one_is_told_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(
        WeightsError, match=r'timm/resnet18 needs the extra torch: pip install "cbcl\[torch\]"'
    ):
        load_timm(name)


@pytest.mark.torch
def test_a_module_is_a_backbone() -> None:
    backbone: Backbone = from_module("small", small(), SMALL)
    vectors = backbone.vectors(photographs())
    assert vectors.shape == (4, 6)
    assert vectors.dtype == np.float32
    told = (backbone.name, backbone.at_least, backbone.batch, backbone.threads)
    assert told == ("small", 48, 32, False)
    half: Backbone = from_module("small", small().half(), SMALL)
    assert half.vectors(photographs()).dtype == np.float32


@pytest.mark.torch
def test_a_picture_alone_has_the_vector_it_has_among_others() -> None:
    backbone = from_module("small", small(), SMALL)
    together = backbone.vectors(photographs())
    alone = np.concatenate([backbone.vectors([picture]) for picture in photographs()])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(backbone.vectors(photographs()), together)


@pytest.mark.torch
def test_the_fingerprint_is_of_the_weights_the_design_and_the_preprocessing() -> None:
    first = from_module("small", small(), SMALL).fingerprint
    larger = Preprocessing(40, SMALL.mean, SMALL.scale)
    assert first == from_module("small", small(), SMALL).fingerprint
    assert first == from_module("small.tagged", small(), SMALL).fingerprint
    others = {
        from_module("small", small(seed=1), SMALL).fingerprint,
        from_module("other", small(), SMALL).fingerprint,
        from_module("small", small(), larger).fingerprint,
    }
    assert len(others | {first}) == 4


@pytest.mark.torch
def test_a_module_that_gives_no_vectors_or_fails_is_refused() -> None:
    torch = pytest.importorskip("torch")
    for module, problem in (
        (small()[:1], r"gives \(4, 6, 30, 30\) for 4 pictures, not one vector each"),
        (torch.nn.Linear(5, 5), r"failed on pictures of \(4, 3, 32, 32\): "),
    ):
        with pytest.raises(WeightsError, match=f"small {problem}"):
            from_module("small", module, SMALL).vectors(photographs())


@pytest.mark.torch
def test_a_model_of_timm_gives_pooled_features() -> None:
    backbone = timm_network()
    assert backbone.name == "timm/resnet18"
    assert backbone.preprocessing == preprocessing_of(CONFIG, "resnet18")
    assert backbone.description == backbone.preprocessing.description
    vectors = backbone.vectors(photographs()[:2])
    assert vectors.shape == (2, 512)
    assert np.isfinite(vectors).all()


@pytest.mark.torch
def test_our_pictures_are_timms() -> None:
    """But for up to half a pixel: timm's crop begins at a whole one, ours is in the very middle."""
    imported_timm()
    from timm.data import create_transform, resolve_data_config

    backbone = timm_network()
    theirs = create_transform(**resolve_data_config(CONFIG), is_training=False)
    for picture in photographs():
        ours = backbone.preprocessing.normalize(backbone.preprocessing.crop(picture))
        assert np.corrcoef(ours.ravel(), theirs(picture).numpy().ravel())[0, 1] > 0.97


@pytest.mark.torch
def test_an_unknown_model_of_timm_names_the_closest() -> None:
    imported_timm()
    for name, advice in (
        ("resnet81", r"the closest names are .*resnet18"),
        ("qqqqqqq", r"timm.list_models\(pretrained=True\) lists"),
    ):
        with pytest.raises(WeightsError, match=f"timm has no pretrained model {name}: {advice}"):
            load_timm(f"timm/{name}")


@pytest.mark.torch
def test_a_failing_download_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no connection.\nAnd more.")

    monkeypatch.setattr(imported_timm(), "create_model", fail)
    with pytest.raises(
        WeightsError, match=r"timm could not load resnet18, whose weights .*: no connection\.$"
    ):
        load_timm("timm/resnet18")


class FakeNetwork(TorchNetwork):
    """A network of timm without PyTorch: the mean colour of the pixels that it is given."""

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        means = [self.preprocessing.crop(picture).mean(axis=(0, 1)) for picture in things]
        return np.array(means, dtype=np.float32)


def test_the_record_of_a_timm_networks_vectors_has_its_preprocessing(tmp_path: Path) -> None:
    for name, picture in zip(("cat", "cup"), photographs(), strict=False):
        (tmp_path / "things" / name).mkdir(parents=True)
        picture.resize((64, 48)).save(tmp_path / "things" / name / "1.png")
    module: Any = None
    backbone = FakeNetwork("timm/fake", module, preprocessing_of(CONFIG, "fake"), "0" * 64, "cpu")
    found = features(str(tmp_path / "things"), backbone, home=tmp_path / "home")
    wanted = {"size": 224, "square": 0.95, "filter": "bicubic", "channels": "RGB", "revision": 1}
    assert wanted.items() <= found.about["preprocessing"].items()
    assert found.about["preprocessing"]["mean"] == pytest.approx([123.675, 116.28, 103.53])
    assert found.about["weights"] == backbone.fingerprint
