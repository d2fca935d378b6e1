"""The exported graph: Python's answers, on photographs and wherever a decision is close."""

from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from PIL import Image
from support.cli import run
from support.graphs import Said, ask, network_of, vectors_of
from support.heads import answers, voting
from support.networks import load_as_network
from support.photos import NAMES, encoded, folders, photo, views

from cbcl import (
    Answer,
    BackboneError,
    CBCLError,
    MemoryFileError,
    Recognizer,
    __version__,
    load_backbone,
)
from cbcl.export import onnx as onnx_export
from cbcl.export.onnx import as_onnx
from cbcl.heads.centroids.head import VOTE
from cbcl.heads.discriminant.onnx import TOLERANCE
from cbcl.method.centroids.concepts import Concepts, agg_var
from cbcl.method.centroids.confidence import Scale, spread_of
from cbcl.method.centroids.model import CentroidModel
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Pixels, load
from cbcl.vision.preprocessing import Preprocessing

EXAMPLE = Path(__file__).parents[2] / "examples" / "portable.py"
NETWORK = "efficientnet-lite0"
SIDE = 2  # pixels of the small networks' pictures
PLAIN = Preprocessing(SIDE, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), filter="nearest")


def assert_same(said: Said, wanted: list[Answer], close: float = 1e-9) -> None:
    assert said["label"].tolist() == [answer.label or "unknown" for answer in wanted]
    assert said["guess"].tolist() == [answer.ranking[0].label for answer in wanted]
    for name in ("confidence", "strangeness"):
        np.testing.assert_allclose(
            said[name], [getattr(answer, name) for answer in wanted], rtol=close, atol=close
        )
    for row, answer in enumerate(wanted):
        some = len(answer.ranking)
        assert said["ranking"][row, :some].tolist() == [guess.label for guess in answer.ranking]
        assert set(said["ranking"][row, some:]) <= {""}
        np.testing.assert_allclose(
            said["ranking_confidence"][row, :some],
            [guess.confidence for guess in answer.ranking],
            atol=close,
        )
        assert not said["ranking_confidence"][row, some:].any()


def prepared(pictures: list[Pixels], backbone: str | Network = NETWORK) -> Pixels:
    network = backbone if isinstance(backbone, Network) else load_as_network(backbone)
    return np.stack([network.preprocessing.crop(Image.fromarray(picture)) for picture in pictures])


def exported(path: Path, given: Any = None) -> bytes:
    """The graph of the memory at a path."""
    file = path.with_suffix(".onnx")
    file.unlink(missing_ok=True)
    with Recognizer(path, given) as recognizer:
        recognizer.snapshot().export_onnx(file)
    return file.read_bytes()


def assert_exported(
    recognizer: Recognizer, asked: list[Pixels], backbone: Any = None, close: float = 1e-9
) -> Said:
    """What the graph of a memory says about pictures, which is what Python answers."""
    said = ask(exported(recognizer.path, backbone), prepared(asked, backbone or NETWORK))
    assert_same(said, recognizer.recognize_many(asked), close)
    return said


def taught(path: Path, names: tuple[str, ...] = NAMES[:3], **options: Any) -> Recognizer:
    recognizer = Recognizer(path, **{"backbone": NETWORK, **options})
    recognizer.learn_many({name: views(name, 4) for name in names})
    return recognizer


# On photographs.


@pytest.mark.parametrize(
    ("backbone", "head", "close"),
    [
        (NETWORK, "discriminant", TOLERANCE),
        (NETWORK, "vote", 1e-9),
        (f"{NETWORK}-int8", "discriminant", TOLERANCE),
    ],
)
def test_it_answers_as_python_does_about_200_photos(
    backbone: str, head: str, close: float, tmp_path: Path
) -> None:
    asked = [view for name in NAMES for view in views(name, 50, seed=1)]
    with taught(tmp_path / "things.cbcl", backbone=backbone, head=head) as recognizer:
        said = assert_exported(recognizer, asked, backbone, close)
        np.testing.assert_array_equal(said["vector"], recognizer.embed(asked))
    assert {*said["label"]} == {*NAMES[:3], "unknown"}


@pytest.mark.parametrize(("radius", "n_voters"), [(math.inf, 1), (1.0, 1), (1.0, 5), (0.0, 1000)])
def test_it_votes_as_python_does(radius: float, n_voters: int, tmp_path: Path) -> None:
    asked = [view for name in NAMES for view in views(name, 2, seed=2)]
    with taught(tmp_path / "things.cbcl", radius=radius, n_voters=n_voters) as recognizer:
        concepts = recognizer.snapshot().concepts()["coffee"]
        assert (len(concepts.counts) > 1) == (radius < math.inf)
        assert_exported(recognizer, asked)


@pytest.mark.parametrize("head", ["discriminant", "vote"])
def test_one_label_is_told_from_all_else(head: Any, tmp_path: Path) -> None:
    asked = [views(name, 1)[0] for name in NAMES]
    with Recognizer(tmp_path / "one.cbcl", NETWORK, head=head) as recognizer:
        recognizer.learn("Kaffee ☕, コーヒー", views("coffee", 2))
        said = assert_exported(recognizer, asked, close=TOLERANCE)
    assert said["guess"].tolist() == ["Kaffee ☕, コーヒー"] * 4
    assert said["label"][NAMES.index("coffee")] == "Kaffee ☕, コーヒー"
    assert said["ranking"].shape == (4, 1)


def test_where_nothing_is_too_far_nothing_is_unknown(tmp_path: Path) -> None:
    network = small("maps")
    with Recognizer(tmp_path / "one.cbcl", backbone=network) as recognizer:
        recognizer.learn("coffee", views("coffee", 2))
        asked = [views(name, 1)[0] for name in NAMES]
        said = assert_exported(recognizer, asked, network)
    assert said["label"].tolist() == ["coffee"] * 4
    assert said["strangeness"].tolist() == [0.0] * 4


def test_what_was_taught_is_known_for_certain(tmp_path: Path) -> None:
    asked = views("coffee", 3)
    with taught(tmp_path / "things.cbcl", radius=0.0) as recognizer:
        said = assert_exported(recognizer, asked)
    assert said["strangeness"].tolist() == [0.0] * 3


@pytest.mark.parametrize("n_voters", [1, 2, 3])
def test_a_photo_taught_twice_is_of_the_smaller_label(n_voters: int, tmp_path: Path) -> None:
    asked = views("coffee", 3) + views("coffee", 5, seed=3)
    with taught(tmp_path / "things.cbcl", radius=0.0, n_voters=n_voters) as recognizer:
        recognizer.learn("zebra", views("coffee", 3))
        recognizer.learn("also", views("coffee", 4))
        said = assert_exported(recognizer, asked)
    assert said["label"][:3].tolist() == ["zebra"] * 3


def test_the_batch_changes_no_answer(tmp_path: Path) -> None:
    pixels = prepared([view for name in NAMES for view in views(name, 2, seed=4)])
    with taught(tmp_path / "things.cbcl") as recognizer:
        model = exported(recognizer.path)
    at_once = ask(model, pixels, batch=8)
    for name, values in ask(model, pixels, batch=1).items():
        if values.dtype == np.float64:
            np.testing.assert_allclose(values, at_once[name], rtol=1e-12)
        else:
            np.testing.assert_array_equal(values, at_once[name])


# On vectors of a few numbers, where everything coincides and ties.


def small(
    kind: str = "vectors", opset: int = 17, how: Preprocessing = PLAIN, batch: int | str = "batch"
) -> Network:
    """A network whose vector is the colours of all pixels, or the mean colour."""
    d = 3 * how.size * how.size
    shapes = {"vectors": [-1, d], "rows": [-1, 1, d], "maps": [-1, 3, how.size, how.size]}
    # Names that we use, too.
    nodes = [helper.make_node("Reshape", ["pictures", "label"], ["vector"])]
    initial = [numpy_helper.from_array(np.array(shapes[kind]), "label")]
    return network_of("small", nodes, opset, how, batch, initial)


def known(
    vectors: NDArray[np.float32], owners: NDArray[Any], radius: float, n: int
) -> tuple[CentroidModel, Scale]:
    parts = {f"{number:02}": vectors[owners == number] for number in np.unique(owners)}
    concepts = {label: agg_var(part, radius) for label, part in parts.items()}
    model = CentroidModel(concepts, radius, n)
    return model, Scale.of([spread_of(part, radius) for part in parts.values()], model.index)


def assert_voted(
    network: Network,
    knowledge: tuple[CentroidModel, Scale],
    asked: Pixels,
    close: float = 1e-9,
    batch: int = 7,
) -> Said:
    """What the graph of a vote says about pictures, which is what Python answers."""
    vectors = np.concatenate([vectors_of(network, one[np.newaxis]) for one in asked])
    model = as_onnx(voting(*knowledge), network)
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    said = ask(model, asked, batch)
    assert_same(said, answers(vectors, *knowledge), close)
    return said


@st.composite
def lessons(draw: st.DrawFn) -> tuple[Network, tuple[CentroidModel, Scale], Pixels]:
    """A network, what was learned through it, and pictures to ask about."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, few = draw(st.integers(1, 150)), draw(st.sampled_from([1, 2, 3, 256]))
    pixels = rng.integers(0, few, (count, SIDE, SIDE, 3), dtype=np.uint8)
    if draw(st.booleans()):
        pixels = pixels[rng.integers(0, min(3, count), count)]  # mostly the same
    asked = np.concatenate([pixels[:5], rng.integers(0, few, (5, SIDE, SIDE, 3), dtype=np.uint8)])
    owners = rng.integers(0, draw(st.integers(1, 12)), count)
    uneven = replace(PLAIN, mean=(103.9, 116.8, 123.7), scale=(57.4, 57.1, 58.4), channels="BGR")
    kind, how = draw(st.sampled_from(["vectors", "rows"])), draw(st.sampled_from([PLAIN, uneven]))
    network = small(kind, how=how)
    radius, n = draw(st.sampled_from([0.0, 1.5, 40.0, math.inf])), draw(st.integers(1, 90))
    return network, known(vectors_of(network, pixels), owners, radius, n), asked


@settings(deadline=None)
@given(lessons())
def test_it_decides_as_python_does(
    lesson: tuple[Network, tuple[CentroidModel, Scale], Pixels],
) -> None:
    assert_voted(*lesson)


@pytest.mark.parametrize("n", [1, 3, 64, 70])
@pytest.mark.parametrize("crowd", [64, 65, 100, 200])
def test_it_decides_as_python_does_among_very_many_of_the_same(crowd: int, n: int) -> None:
    network = small()
    pixels = np.full((crowd + 6, SIDE, SIDE, 3), 7, dtype=np.uint8)
    pixels[-4:] = np.arange(4).reshape(4, 1, 1, 1)
    owners = np.array([0] * crowd + [2, 2, 1, 3, 3, 4])
    knowledge = known(vectors_of(network, pixels), owners, 0.0, n)
    said = assert_voted(network, knowledge, pixels[-8:])
    assert said["label"][:4].tolist() == ["02"] * 4


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
@pytest.mark.parametrize("kind", ["vectors", "rows", "maps"])
def test_networks_of_any_opset_and_shape_are_taken(kind: str, opset: int) -> None:
    rng = np.random.default_rng(opset)
    pixels = rng.integers(0, 256, (90, SIDE, SIDE, 3), dtype=np.uint8)
    network = small(kind, opset)
    knowledge = known(vectors_of(network, pixels), np.arange(90) % 9, 0.0, 3)
    asked = rng.integers(0, 256, (20, SIDE, SIDE, 3), dtype=np.uint8)
    assert_voted(network, knowledge, asked, close=1e-6)


def test_a_network_of_one_picture_at_a_time_stays_one() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, SIDE, SIDE, 3), dtype=np.uint8)
    network = small(batch=1)
    vectors = np.concatenate([vectors_of(network, one[np.newaxis]) for one in pixels])
    knowledge = known(vectors, np.arange(6) % 2, 0.0, 1)
    model = onnx.load_from_string(as_onnx(voting(*knowledge), network))
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    assert_voted(network, knowledge, pixels, batch=1)


def test_a_picture_without_light_has_no_length() -> None:
    network = small()
    black, grey = (np.full((1, SIDE, SIDE, 3), value, dtype=np.uint8) for value in (0, 9))
    concepts = Concepts(vectors_of(network, grey), np.array([2]))
    knowledge = CentroidModel({"grey": concepts}, math.inf, 1)
    for scale in (Scale(1.0, math.inf), Scale(0.5, 0.7)):
        assert_voted(network, (knowledge, scale), black)


# What the file says, and what is refused.


def words_of(model: bytes) -> dict[str, str]:
    return {one.key: one.value for one in onnx.load_from_string(model).metadata_props}


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({}, {"head": "discriminant"}),
        ({"n_voters": 3}, {"head": "vote", "radius": "inf", "n_voters": "3"}),
    ],
)
def test_the_file_explains_itself_and_the_same_memory_gives_the_same_bytes(
    options: dict[str, Any], about: dict[str, str], tmp_path: Path
) -> None:
    with taught(tmp_path / "things.cbcl", **options) as recognizer:
        recognizer.rename("coffee", "Kaffee ☕")
        model = exported(recognizer.path)
        assert model == exported(recognizer.path)
    words = words_of(model)
    crop = {"size": 224, "square": 1.0, "filter": "bicubic", "at_least": 336}
    assert json.loads(words.pop("preprocessing")) == crop
    assert json.loads(words.pop("labels")) == ["Kaffee ☕", "astronaut", "chelsea"]
    backbone = {"backbone": NETWORK, "fingerprint": load_as_network(NETWORK).fingerprint}
    assert words == {"cbcl": __version__, **backbone, **about}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert [(one.name, one.type, one.shape) for one in session.get_inputs()] == [
        ("pictures", "tensor(uint8)", ["batch", 224, 224, 3])
    ]
    assert [(one.name, one.type, one.shape) for one in session.get_outputs()] == [
        ("label", "tensor(string)", ["batch"]),
        ("confidence", "tensor(double)", ["batch"]),
        ("strangeness", "tensor(double)", ["batch"]),
        ("guess", "tensor(string)", ["batch"]),
        ("ranking", "tensor(string)", ["batch", 3]),
        ("ranking_confidence", "tensor(double)", ["batch", 3]),
        ("vector", "tensor(float)", ["batch", 1280]),
    ]


def test_a_backbone_from_a_file_is_given_again(tmp_path: Path) -> None:
    how = {"size": 8, "mean": [1, 2, 3], "scale": [4, 5, 6], "channels": "BGR"}
    (tmp_path / "net.json").write_text(json.dumps(how))
    network = str(tmp_path / "net.onnx")
    Path(network).write_bytes(small("maps", how=replace(PLAIN, size=8)).model)
    with taught(tmp_path / "things.cbcl", backbone=network) as recognizer:
        with pytest.raises(BackboneError, match="give that backbone"):
            exported(recognizer.path)
        with pytest.raises(BackboneError, match="was learned through"):
            exported(recognizer.path, "efficientnet-lite0")
        asked = [view for name in NAMES for view in views(name, 3, seed=5)]
        assert_exported(recognizer, asked, network, close=1e-6)
        assert words_of(exported(recognizer.path, network))["backbone"] == "net.onnx"


def test_only_networks_in_onnx_can_be_exported(tmp_path: Path) -> None:
    def mean(things: Sequence[Any]) -> list[Any]:
        return [np.asarray(one).mean((0, 1)) for one in things]

    for name, backbone in (
        ("words", "visual-words"),
        ("means", load_backbone(mean, name="means", at_least=8)),
    ):
        taught(tmp_path / name, backbone=backbone).close()
        with pytest.raises(
            BackboneError,
            match="is no ONNX network, so it cannot be part of an ONNX file: learn through one",
        ):
            exported(tmp_path / name, backbone)
    with Recognizer(tmp_path / "vectors", backbone="identity") as recognizer:
        recognizer.learn("cup", [[1.0, 2.0]])
    with pytest.raises(BackboneError, match="identity is no ONNX network"):
        exported(tmp_path / "vectors")


def test_what_is_not_there_or_there_already_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    with (
        Recognizer(path) as recognizer,
        pytest.raises(MemoryFileError, match="does not exist: learn something first"),
    ):
        recognizer.snapshot().export_onnx(tmp_path / "things.onnx")
    with taught(path, NAMES[:1]) as recognizer:
        (tmp_path / "things.onnx").write_text("mine")
        with pytest.raises(MemoryFileError, match="is there already: give another name"):
            recognizer.snapshot().export_onnx(tmp_path / "things.onnx")
        with pytest.raises(MemoryFileError, match="cannot be written"):
            recognizer.snapshot().export_onnx(tmp_path / "things.onnx" / "x.onnx")
        assert (tmp_path / "things.onnx").read_text() == "mine"
        recognizer.forget(NAMES[0])
        with pytest.raises(MemoryFileError, match="knows nothing: learn something first"):
            recognizer.snapshot().export_onnx(tmp_path / "new.onnx")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["things.cbcl", "things.onnx"]


def test_too_many_labels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught(tmp_path / "things.cbcl").close()
    monkeypatch.setattr(onnx_export, "MAX_ONNX_BYTES", 1_000_000)
    with pytest.raises(
        MemoryFileError, match="3 labels are too many for an ONNX file, which ends at 2 GB"
    ):
        exported(tmp_path / "things.cbcl")


def test_a_network_that_is_not_the_same_twice_is_refused(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomUniformLike", ["pictures"], ["noise"]),
        helper.make_node("Flatten", ["noise"], ["vectors"]),
    ]
    network = network_of("dice", nodes, 17, PLAIN)
    taught(tmp_path / "things.cbcl", backbone=network).close()
    with pytest.raises(
        BackboneError, match=r"dice\.onnx gives other answers as part of a larger graph"
    ):
        exported(tmp_path / "things.cbcl", network)


def test_a_network_too_old_to_be_turned_into_a_newer_one_is_refused(tmp_path: Path) -> None:
    gone: dict[str, Any] = {"scale": 1.0, "bias": [0.0, 0.0, 0.0]}  # since opset 10
    nodes = [
        helper.make_node("ImageScaler", ["pictures"], ["same"], **gone),
        helper.make_node("Flatten", ["same"], ["vectors"]),
    ]
    network = network_of("old", nodes, 9, PLAIN)
    taught(tmp_path / "things.cbcl", backbone=network).close()
    with pytest.raises(
        BackboneError,
        match=r"old\.onnx is of ONNX's opset 9, and cannot be converted to 17: save the",
    ):
        exported(tmp_path / "things.cbcl", network)


# From the command line, and without cbcl.


def test_the_command_writes_one_of_both_kinds(tmp_path: Path) -> None:
    memory = tmp_path / "things.cbcl"
    taught(memory, NAMES[:2]).close()
    result = run("export", memory, "--onnx", tmp_path / "things.onnx")
    assert (result.exit_code, result.output) == (0, f"wrote {tmp_path / 'things.onnx'}.\n")
    assert (tmp_path / "things.onnx").read_bytes() == exported(memory)
    one, alone = "give one of FILE, --onnx FILE and --app FOLDER", "--backbone goes with --onnx"
    for words, problem in (
        ([], one),
        (["things", "--onnx", "things.onnx"], one),
        (["things", "--backbone", "efficientnet-lite0"], alone),
        (["x.safetensors", "--any-size"], "--any-size goes with --onnx"),
    ):
        result = run("export", memory, *words)
        assert result.exit_code == 2, words
        assert problem in result.output
    again = run("export", memory, "--onnx", tmp_path / "things.onnx")
    assert (again.exit_code, again.output.count("\n")) == (1, 1)


def photos_of_every_kind(where: Path) -> list[Path]:
    """Views, and a large JPEG on its side, a GIF, a grey PNG, a tall WebP."""
    where.mkdir()
    (where / "view.jpg").write_bytes(encoded(views("coffee", 1, seed=6)[0]))
    large = photo("coffee").resize((3000, 2000), Image.Resampling.BICUBIC)
    turned = Image.Exif()
    turned[0x0112] = 6
    (where / "large.jpg").write_bytes(encoded(large, exif=turned))
    (where / "few.gif").write_bytes(encoded(photo("astronaut"), "GIF"))
    (where / "grey.png").write_bytes(encoded(photo("chelsea").convert("L"), "PNG"))
    (where / "tall.webp").write_bytes(encoded(photo("rocket").resize((300, 900)), "WEBP"))
    return sorted(where.iterdir())


def test_the_example_needs_no_cbcl_and_says_what_the_command_line_says(tmp_path: Path) -> None:
    memory, model = tmp_path / "things.cbcl", tmp_path / "things.onnx"
    taught(memory, NAMES[:3]).close()
    assert run("export", memory, "--onnx", model).exit_code == 0
    photos = [*photos_of_every_kind(tmp_path / "asked"), *folders(tmp_path / "more").rglob("*.jpg")]
    code = (
        "import runpy, sys; sys.modules['cbcl'] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0]); "
        "assert not [name for name in sys.modules if name.startswith('cbcl.')]"
    )
    words = [sys.executable, "-c", code, str(EXAMPLE), str(model), *map(str, photos)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    told = run("recognize", memory, "--json", "--no-cache", *photos)
    assert told.exit_code == 0
    wanted = [json.loads(line) for line in told.output.splitlines()]
    assert [(line[0], line[1]) for line in lines] == [
        (one["photo"], one["label"] or "unknown") for one in wanted
    ]
    np.testing.assert_allclose(
        [float(line[2]) for line in lines], [one["confidence"] for one in wanted], atol=1e-6
    )
    assert {line[1] for line in lines} == {*NAMES[:3], "unknown"}


def test_the_example_prepares_pictures_as_we_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught(tmp_path / "things.cbcl", NAMES[:1]).close()
    exported(tmp_path / "things.cbcl")
    files = photos_of_every_kind(tmp_path / "asked")
    words = ["portable.py", str(tmp_path / "things.onnx"), str(files[0])]
    monkeypatch.setattr(sys, "argv", words)
    example = runpy.run_path(str(EXAMPLE))
    network = load_as_network(NETWORK)
    for file in files:
        np.testing.assert_array_equal(
            example["pixels"](file, example["inputs"]["pictures"]),
            network.preprocessing.crop(load(file, file.name, network.at_least)),
        )


def test_the_docs_show_the_example() -> None:
    page = (EXAMPLE.parent.parent / "docs" / "onnx.md").read_text()
    assert f"```python\n{EXAMPLE.read_text()}```\n" in page


def test_what_cannot_be_run_is_refused() -> None:
    network = small()
    pixels = np.random.default_rng(0).integers(0, 256, (4, SIDE, SIDE, 3), dtype=np.uint8)
    voters = voting(*known(vectors_of(network, pixels), np.arange(4) % 2, math.inf, 1))
    with pytest.raises(CBCLError, match=r"small\.onnx cannot be part of a larger graph: "):
        onnx_export._check_answers(b"no model", voters, VOTE, network)
