"""Backbones by name, by file and by function; each known by its fingerprint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from support.app import static_server
from support.checkpoints import write_zip
from support.networks import PLAIN, colour_model, colour_network, load_as_network
from support.photos import photo

from cbcl import WeightsError, load_backbone
from cbcl.files import backbones_folder, cache_folder
from cbcl.vision.backbones import catalogue, list_backbones, restore, try_out
from cbcl.vision.backbones.base import Function
from cbcl.vision.backbones.catalogue import (
    CATALOGUE,
    download,
    import_network,
    is_available,
    load_network,
)
from cbcl.vision.backbones.network import read_stored
from cbcl.vision.preprocessing import Preprocessing

# Of efficientnet-lite0: a change makes every memory that exists unusable.
FINGERPRINT = "227118ea98f9b2bd9db63404ec35dfcb"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return colour_network(tmp_path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_network_of_the_users_with_its_description_beside_it(file: Path) -> None:
    backbone = load_as_network(file)
    picture = Image.new("RGB", (50, 40), (255, 51, 0))
    np.testing.assert_allclose(
        backbone.vectors([picture, picture]), [[1.0, 0.2, 0.0]] * 2, atol=1e-6
    )
    assert restore(str(file), b"").fingerprint == backbone.fingerprint


def test_channels_square_mean_and_scale_are_as_described(file: Path) -> None:
    more = {"channels": "BGR", "square": 0.5, "mean": [0, 51, 0], "scale": [255, 51, 255]}
    file.with_suffix(".json").write_text(json.dumps({**PLAIN, **more}))
    pixels = np.zeros((40, 40, 3), np.uint8)
    pixels[10:30, 10:30] = (255, 102, 51)  # the central half
    backbone = load_as_network(file)
    (vector,) = backbone.vectors([Image.fromarray(pixels)])
    np.testing.assert_allclose(vector, [0.2, 1.0, 1.0], atol=0.02)


def test_the_fingerprint_changes_with_weights_and_preprocessing_and_nothing_else(
    file: Path, tmp_path: Path
) -> None:
    first = load_as_network(file).fingerprint
    for name in ("net.onnx", "net.json"):
        (tmp_path / name.replace("net", "same")).write_bytes((tmp_path / name).read_bytes())
    assert load_as_network(tmp_path / "same.onnx").fingerprint == first
    for change in (
        {"size": 33},
        {"filter": "bilinear"},
        {"mean": [1, 0, 0]},
        {"square": 0.9},
        {"channels": "BGR"},
    ):
        file.with_suffix(".json").write_text(json.dumps({**PLAIN, **change}))
        assert load_as_network(file).fingerprint != first


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (None, "is missing: it says how to prepare"),
        ("{", "is not JSON"),
        ("[]", "must describe size, mean, scale"),
        ('{"size": 224}', "must describe size, mean, scale"),
        (json.dumps({**PLAIN, "colour": 1}), "must describe"),
        (json.dumps({**PLAIN, "size": "large"}), "makes no sense"),
        (json.dumps({**PLAIN, "scale": [0, 1, 1]}), "makes no sense"),
        (json.dumps({**PLAIN, "filter": "magic"}), "makes no sense"),
        (json.dumps({**PLAIN, "weights": "x"}), "must describe"),
        (json.dumps({**PLAIN, "size": 32.9}), "makes no sense"),
        (json.dumps({**PLAIN, "size": 1e999}), "makes no sense"),
        (json.dumps({**PLAIN, "scale": "128"}), "makes no sense"),
        (json.dumps({**PLAIN, "mean": [float("nan"), 0, 0]}), "makes no sense"),
        (json.dumps({**PLAIN, "square": 5e-324}), "makes no sense"),
        ("[" * 200_000, "is not JSON"),
    ],
)
def test_a_description_that_is_wrong_is_told(
    file: Path, description: str | None, message: str
) -> None:
    file.with_suffix(".json").unlink()
    if description is not None:
        file.with_suffix(".json").write_text(description)
    with pytest.raises(WeightsError, match=message):
        load_backbone(file)


def test_an_error_about_a_network_in_a_file_shows_no_folder_in_public(file: Path) -> None:
    def told(failing: Callable[[], object], name: str, problem: str) -> None:
        with pytest.raises(WeightsError, match=problem) as caught:
            failing()
        assert str(file.parent / name) in str(caught.value)
        assert caught.value.public.startswith(f"{name} ")
        assert str(file.parent) not in caught.value.public

    file.write_bytes(b"no network")
    told(lambda: load_backbone(file), "net.onnx", "is not an ONNX model")
    file.write_bytes(b"")
    empty = load_as_network(file)
    problem = "not a network that ONNX Runtime can run"
    told(lambda: empty.vectors([photo("coffee")]), "net.onnx", problem)
    file.with_suffix(".json").write_text("{")
    told(lambda: load_backbone(file), "net.json", "is not JSON")


EXTERNAL_PLACES: dict[str, Callable[[onnx.ModelProto], onnx.TensorProto]] = {
    "weights": lambda model: model.graph.initializer[0],
    "a branch": lambda model: (
        model.graph.node.add(op_type="If").attribute.add().g.initializer.add()
    ),
    "a branch of a branch": lambda model: (
        model.graph.node.add().attribute.add().graphs.add().node.add().attribute.add().g
    ).initializer.add(),
    "a constant": lambda model: model.graph.node.add(op_type="Constant").attribute.add().t,
    "constants": lambda model: model.graph.node.add().attribute.add().tensors.add(),
    "sparse weights": lambda model: model.graph.sparse_initializer.add().values,
    "a function": lambda model: model.functions.add().node.add().attribute.add().t,
}


@pytest.mark.parametrize("place", EXTERNAL_PLACES)
def test_weights_in_another_file_are_refused(place: str, file: Path) -> None:
    model = onnx.load_from_string(colour_model())
    tensor = EXTERNAL_PLACES[place](model)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="net.bin")
    tensor.ClearField("raw_data")
    file.write_bytes(model.SerializeToString())
    with pytest.raises(WeightsError, match="keeps its weights in another file"):
        load_backbone(file)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(WeightsError, match=r"'lite0'.*efficientnet-lite0.*resnet18.*visual-words"):
        load_backbone("lite0")
    with pytest.raises(ValueError, match="needs a name"):
        load_backbone(lambda things: things)
    with pytest.raises(ValueError, match="is not a backbone"):
        load_backbone(7)  # type: ignore[arg-type]


def test_a_function_must_give_a_vector_for_each_thing() -> None:
    backbone = load_backbone(lambda things: [[1.0]] * (len(things) + 1), name="wrong")
    assert isinstance(backbone, Function)
    with pytest.raises(
        ValueError, match=r"one vector for each of 2 things, but gave shape \(3, 1\)"
    ):
        backbone.vectors(["a", "b"])


def test_a_network_is_built_once_and_a_spoiled_copy_is_built_again(home: Path) -> None:
    first = load_network("efficientnet-lite0")
    (copy,) = (cache_folder() / "networks").glob("efficientnet-lite0-*.onnx")
    assert copy.is_relative_to(home)
    assert read_stored(copy, "x", first.preprocessing).fingerprint == first.fingerprint
    about = copy.with_suffix(".json").read_text()
    for spoiled in (copy, copy.with_suffix(".json")):
        spoiled.write_bytes(spoiled.read_bytes()[:-10] + bytes(10))
        again = load_network("efficientnet-lite0")
        assert (again.model, again.fingerprint) == (first.model, first.fingerprint)
        assert copy.read_bytes() == first.model
        assert copy.with_suffix(".json").read_text() == about


def test_a_note_of_what_was_done_to_the_weights_is_part_of_the_description(file: Path) -> None:
    plain = load_as_network(file)
    file.with_suffix(".json").write_text(json.dumps({**PLAIN, "note": "made again"}))
    noted = load_as_network(file)
    assert noted.description == {**plain.description, "note": "made again"}
    assert noted.fingerprint != plain.fingerprint
    file.with_suffix(".json").write_text(json.dumps({**PLAIN, "note": 3}))
    with pytest.raises(WeightsError, match=r'net\.json has "note": 3: give a text'):
        load_backbone(file)


def test_a_stored_network_whose_record_has_no_proper_text_is_refused(file: Path) -> None:
    network = load_as_network(file)
    network.write(file)
    record = json.loads(file.with_suffix(".json").read_text())
    file.with_suffix(".json").write_text(json.dumps({**record, "note": "\ud800"}))
    with pytest.raises(WeightsError, match="is not the file that was stored"):
        read_stored(file, "net", network.preprocessing)


@pytest.mark.usefixtures("home")
def test_what_was_done_to_imported_weights_is_told_with_the_preprocessing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = CATALOGUE["resnet18"]._replace(build=lambda _: colour_model())
    monkeypatch.setitem(CATALOGUE, "resnet18", entry)
    write_zip(tmp_path / "plain.pth", {}, {})
    write_zip(tmp_path / "noted.pth", {"note": "statistics made again"}, {})
    plain, noted = (
        import_network("resnet18", tmp_path / f"{name}.pth") for name in ("plain", "noted")
    )
    assert noted.description == {**plain.description, "note": "statistics made again"}
    assert noted.fingerprint != plain.fingerprint
    again = load_network("resnet18")
    assert (again.description, again.fingerprint) == (noted.description, noted.fingerprint)
    about = backbones_folder() / "resnet18.json"
    about.write_text(about.read_text().replace("made again", "as they were"))
    with pytest.raises(WeightsError, match="is not the file that was stored: import it again"):
        load_network("resnet18")


def test_without_a_place_to_keep_it_a_network_is_built_all_the_same(home: Path) -> None:
    home.mkdir()
    (home / "cache").touch()  # a file where the folder should be
    assert load_network("efficientnet-lite0").fingerprint == FINGERPRINT


def test_seeing_writes_nothing_but_to_its_own_place_and_reports_to_nobody(tmp_path: Path) -> None:
    code = """
from PIL import Image
from cbcl import load_backbone
load_backbone().vectors([Image.new("RGB", (300, 200))])
"""
    places = {"HOME": str(tmp_path / "user"), "CBCL_HOME": str(tmp_path / "own")}
    with_own = {
        name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "ORT_"))
    } | places
    (tmp_path / "user").mkdir()
    subprocess.run([sys.executable, "-c", code], env=with_own, check=True)
    assert [*(tmp_path / "user").rglob("*")] == []
    stored = sorted(path.suffix for path in (tmp_path / "own").rglob("*.*"))
    assert stored == [".json"] * 2 + [".onnx"] * 2  # a network for each of two views


def test_what_is_not_here_is_told_with_the_way_to_get_it(home: Path) -> None:
    assert not is_available("resnet18")
    with pytest.raises(
        WeightsError, match=r"cbcl backbones import resnet18 FILE.*resnet18-f37072fd\.pth.*download"
    ):
        load_backbone("resnet18")
    with pytest.raises(WeightsError, match="cannot be imported: those that can"):
        import_network("efficientnet-lite0", home)
    with pytest.raises(WeightsError, match="is not a file"):
        import_network("resnet18", home / "none.pth")


def test_every_backbone_is_listed_with_its_numbers() -> None:
    rows = {name: (numbers, here) for name, numbers, here, _ in list_backbones()}
    assert rows["efficientnet-lite0"] == ("1280", "yes")
    assert rows["resnet50"][0] == "2048"
    assert set(CATALOGUE) < set(rows)


def test_a_backbone_can_be_tried() -> None:
    name, numbers, fingerprint, rate = try_out("efficientnet-lite0")
    assert (name, len(fingerprint)) == ("efficientnet-lite0", 32)
    assert int(numbers) > 0
    assert float(rate) > 0


def test_a_download_is_checked_by_its_sha256_and_imported(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"weights" * 1000
    good = f"net-{sha256(data).hexdigest()[:8]}.pth"
    for name in (good, "net-00000000.pth"):
        (tmp_path / name).write_bytes(data)
    recipe = CATALOGUE["resnet18"]._replace(
        build=lambda path: colour_model() if path.read_bytes() == data else b"",
        preprocessing=Preprocessing(32, *catalogue.CENTRED),
    )
    told: list[tuple[int, int]] = []
    with static_server(tmp_path) as url:
        for name, message in (
            ("net-00000000.pth", "SHA-256"),
            ("none-00000000.pth", "cannot be downloaded"),
        ):
            monkeypatch.setitem(CATALOGUE, "resnet18", recipe._replace(url=f"{url}{name}"))
            with pytest.raises(WeightsError, match=message):
                download("resnet18")
            assert not is_available("resnet18")
        monkeypatch.setitem(CATALOGUE, "resnet18", recipe._replace(url=f"{url}{good}"))
        download("resnet18", lambda done, total: told.append((done, total)))
    assert told[-1] == (7000, 7000)
    assert is_available("resnet18")
    assert load_network("resnet18").vectors([photo("coffee")]).shape == (1, 3)
    assert [*(cache_folder() / "downloads").iterdir()] == []
    assert backbones_folder().is_relative_to(home)
    with pytest.raises(WeightsError, match="cannot be downloaded"):
        download("efficientnet-lite1")
