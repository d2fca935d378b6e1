"""Cosines of a backbone: measured on pictures, shipped in a table, kept in memories."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.measuring import HOW, PHOTOS, THINGS, backbone_of, network, things
from support.photos import views

from cbcl import BackboneError, MemoryFileError, PictureError, Recognizer, WeightsError
from cbcl.memory.packing import unpack_info
from cbcl.memory.rows import MemoryInfo
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.measured import NUMBERS as KEYS
from cbcl.method.discriminant.measured import pack_measured, unpack_measured
from cbcl.method.discriminant.open_set import Cosines, units
from cbcl.method.discriminant.statistics import EXACT
from cbcl.recognition.cosines import TABLE, Measurement, measure, measured_of, write_row
from cbcl.vision.backbones import DEFAULT, load_backbone
from cbcl.vision.backbones.base import Backbone, Function
from cbcl.vision.backbones.catalogue import is_available

PAGE = Path(__file__).parents[2] / "docs" / "backbones.md"
TABLE_ROWS: dict[str, dict[str, Any]] = json.loads(TABLE.read_text())
COSINES = Cosines(0.5, 0.1, 0.05, 0.2, 0.06, np.linspace(0.0, 0.1, 64, dtype=np.float32))
NUMBERS = pack_measured(COSINES, 0.9, 0.6)


def squares(pictures: Any) -> Any:
    return [np.asarray(one.convert("RGB").resize((5, 5))).ravel() / 8.0 for one in pictures]


SQUARES = Function(squares, "squares-1", at_least=10)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("measured")
    return [things(place / "birds", 1), things(place / "cups", 2)]


@pytest.fixture(scope="module")
def measured(folders: list[Path]) -> Measurement:
    return measure(SQUARES, folders)


# Measuring.


def seen(folder: Path) -> Float32s:
    """Return the directions of all photos of a folder: (things, photos, d)."""
    paths = sorted(folder.rglob("*.png"))
    directions = as_directions(np.stack(squares([Image.open(path) for path in paths])))
    return directions.reshape(THINGS, PHOTOS, -1)


def test_the_numbers_are_those_of_the_photos(folders: list[Path], measured: Measurement) -> None:
    both = [seen(folder) for folder in folders]
    centre = np.mean([some.mean(axis=(0, 1)) for some in both], axis=0)
    found = unpack_measured(measured.numbers, len(centre)).cosines
    assert found is not None
    assert found.centre is not None
    np.testing.assert_allclose(found.centre, centre, atol=centre.max() / 200)
    plain = found._replace(centre=centre)
    first, second = (
        units(some.reshape(-1, len(centre)), plain).reshape(some.shape) for some in both
    )
    products = np.einsum("tnd,umd->tnum", first, second)
    assert found.other_deviation == pytest.approx(products.std(), abs=1e-3)
    same = np.mean(
        [(np.einsum("tnd,tmd->t", some, some) - PHOTOS).mean() for some in (first, second)]
    )
    assert found.same == pytest.approx(same / (PHOTOS * (PHOTOS - 1)), abs=0.02)
    assert found.other < found.same
    assert found.class_deviation < found.deviation


def test_a_near_copy_is_more_alike_than_nearly_all_photos_of_a_thing(
    folders: list[Path], measured: Measurement
) -> None:
    known = unpack_measured(measured.numbers, 75)
    for folder in folders:
        some = seen(folder)
        rows = np.triu_indices(PHOTOS, 1)
        pairs = np.einsum("tnd,tmd->tnm", some, some)[:, *rows]
        assert (pairs > known.copy).mean() < 0.02
        assert known.alike < pairs.mean() < known.copy <= EXACT


def test_measuring_again_gives_the_same_numbers_and_says_from_how_many_photos(
    folders: list[Path], measured: Measurement
) -> None:
    done = []
    again = measure(SQUARES, folders, lambda *progress: done.append(progress))
    assert again == measured
    assert (again.photos, again.classes, again.problems) == (480, 40, [])
    assert done == [(n, 560) for n in range(1, 561)]


def test_a_broken_photo_is_left_out_and_told(folders: list[Path], tmp_path: Path) -> None:
    place = shutil.copytree(folders[0], tmp_path / "birds")
    things(tmp_path / "more", 3, 1)
    (tmp_path / "more" / "thing 0").rename(place / "thing 20")
    broken = place / "thing 3" / "0.png"
    broken.write_bytes(b"no picture")
    found = measure(SQUARES, [place, folders[1]])
    assert [error.subject for error in found.problems] == [broken]
    assert (found.photos, found.classes) == (480, 40)  # a thing of eleven photos is not counted
    shutil.rmtree(place / "thing 20")
    with pytest.raises(PictureError, match=r"birds has 19 folders of at least 12 photos"):
        measure(SQUARES, [place, folders[1]])


def test_folders_that_cannot_be_measured_are_told_with_the_way_out(
    folders: list[Path], tmp_path: Path
) -> None:
    few = things(tmp_path / "few", 4, 2)
    for given, problem in (
        ([folders[0]], "are the same"),
        ([folders[0], folders[0] / ".." / "birds"], "are the same"),
        ([folders[0], tmp_path / "none"], "none is not a folder"),
        ([folders[0], few], "few has 2 folders of at least 12 photos"),
        ([folders[0], few / "thing 0"], "has 1 folders"),
    ):
        with pytest.raises(
            PictureError, match=f"{problem}.*: give two different folders, each with 20 "
        ):
            measure(SQUARES, given)


def test_what_gives_no_embeddings_of_pictures_cannot_be_measured(folders: list[Path]) -> None:
    with pytest.raises(WeightsError, match="takes no pictures"):
        measure(backbone_of("identity"), folders)
    few = Function(lambda some: [[1.0, 2.0] for _ in some], "few", at_least=8)
    with pytest.raises(WeightsError, match="gives fewer than 64 numbers"):
        measure(few, folders)


# The table.


@pytest.mark.parametrize("name", TABLE_ROWS)
def test_a_row_of_the_table_is_of_the_backbone_of_its_name(name: str) -> None:
    row = TABLE_ROWS[name]
    d = 1280 * len(name.split("+"))
    known = unpack_measured(row["numbers"], d)
    assert known.cosines is not None
    assert known.cosines.other < known.alike < known.copy
    assert name in row["command"]
    if is_available(name):
        assert backbone_of(name).fingerprint == row["fingerprint"]
        about = MemoryInfo(name, row["fingerprint"], d, False, "test")
        assert repr(measured_of(about)) == repr(known)


def test_the_default_backbone_was_measured() -> None:
    assert TABLE_ROWS[DEFAULT]["photos"] == 3620


def test_the_page_has_the_numbers_of_the_table() -> None:
    page = PAGE.read_text()
    for name, row in TABLE_ROWS.items():
        numbers = [f"{row['numbers'][key]:.3f}" for key in KEYS]
        assert f"| `{name}` | {' | '.join(numbers)} |" in page


def test_near_copies_of_networks_of_the_list_are_known_without_a_row() -> None:
    for name, copy, alike in (
        ("resnet18", 0.92, 0.55),
        ("resnet18@2views", 0.945, 0.6),
        (DEFAULT, 0.945, 0.6),  # of other weights
        ("resnet18+net.onnx", EXACT, EXACT),
        ("my+encoder", EXACT, EXACT),
    ):
        assert measured_of(MemoryInfo(name, "0" * 32, 64, False, "test")) == (None, copy, alike)


# Files of the user's.


def row_of(backbone: Backbone, numbers: object = NUMBERS) -> dict[str, Any]:
    return {"fingerprint": backbone.fingerprint, "numbers": numbers}


def begin(memory: Path, backbone: str | Path) -> MemoryInfo:
    with Recognizer(memory, str(backbone), cache=False) as recognizer:
        recognizer.learn_many({name: views(name, 2) for name in ("coffee", "rocket")})
        about = recognizer.snapshot().about
    assert about is not None
    return about


def test_the_numbers_of_a_file_are_kept_by_the_memories_that_are_begun_with_it(
    tmp_path: Path,
) -> None:
    file = network(tmp_path)
    before = begin(tmp_path / "before.cbcl", file)
    assert (before.measured, measured_of(before)) == (None, (None, EXACT, EXACT))
    write_row(tmp_path / "net.json", "measured", row_of(backbone_of(file)))
    assert json.loads((tmp_path / "net.json").read_text()).items() >= HOW.items()
    about = begin(tmp_path / "things.cbcl", file)
    assert about.fingerprint == before.fingerprint
    assert about.measured == NUMBERS
    assert measured_of(about)[1:] == (0.9, 0.6)
    assert begin(tmp_path / "before.cbcl", file) == before


def test_they_travel_to_a_machine_that_has_not_measured(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file, other = network(tmp_path), network(tmp_path / "other")
    write_row(tmp_path / "net.json", "measured", row_of(backbone_of(file)))
    begin(tmp_path / "things.cbcl", file)
    moved = shutil.copy(tmp_path / "things.cbcl", tmp_path / "other")
    with (
        Recognizer(tmp_path / "things.cbcl", str(file), cache=False) as here,
        Recognizer(moved, str(other), cache=False) as there,
    ):
        for photo in (*views("coffee", 3, 7), *views("chelsea", 3, 7)):
            assert there.recognize(photo).as_dict() == here.recognize(photo).as_dict()
        exported = there.export(tmp_path / "things")
        assert all(path.exists() for path in exported.files)
    with Recognizer(tmp_path / "again.cbcl", str(other)) as again:
        again.import_(tmp_path / "things")
        about = again.snapshot().about
    assert about is not None
    assert about.measured == NUMBERS


def test_numbers_of_another_description_are_not_used(tmp_path: Path) -> None:
    file = network(tmp_path)
    write_row(tmp_path / "net.json", "measured", row_of(backbone_of(file)))
    for other in (f"{file}@2views", f"{file}@centre"):
        assert begin(tmp_path / f"{other[-6:]}.cbcl", other).measured is None
    description = json.loads((tmp_path / "net.json").read_text())
    (tmp_path / "net.json").write_text(json.dumps({**description, "square": 0.9}))
    assert begin(tmp_path / "things.cbcl", file).measured is None


# What somebody else may have written.

CHANGES: list[Callable[[dict[str, Any]], Any]] = [
    lambda numbers: [numbers],
    lambda _: "",
    lambda _: {},
    lambda numbers: {**numbers, "more": 1.0},
    lambda numbers: {**numbers, "same": float("nan")},
    lambda numbers: {**numbers, "same": 10**400},
    lambda numbers: {**numbers, "same": True},
    lambda numbers: {**numbers, "same": "0.5"},
    lambda numbers: {**numbers, "deviation": 0.0},
    lambda numbers: {**numbers, "class_deviation": -0.1},
    lambda numbers: {**numbers, "other_deviation": float("inf")},
    lambda numbers: {**numbers, "copy": -0.5},
    lambda numbers: {**numbers, "scale": 1.0},
    lambda numbers: {**numbers, "centre": numbers["centre"][:-4]},
    lambda numbers: {**numbers, "centre": "\u00e9"},
    lambda numbers: {**numbers, "centre": "?" * 88},
    lambda numbers: {**numbers, "centre": None},
]


@pytest.mark.parametrize("change", CHANGES)
def test_numbers_that_make_no_sense_are_refused(
    change: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    about = MemoryInfo("net.onnx", "0" * 32, 64, False, "test", NUMBERS)
    assert unpack_info(about.as_json(), tmp_path) == about
    wrong = replace(about, measured=change(NUMBERS))
    with pytest.raises(MemoryFileError, match="is damaged, since its description is invalid"):
        unpack_info(wrong.as_json(), tmp_path)
    file = network(tmp_path)
    row = row_of(backbone_of(file), change(NUMBERS))
    write_row(tmp_path / "net.json", "measured", row)
    with pytest.raises(BackboneError, match=r"measured. makes no sense: leave it out"):
        begin(tmp_path / "things.cbcl", file)
    assert not (tmp_path / "things.cbcl").exists()


def test_a_description_whose_numbers_are_no_object_is_refused(tmp_path: Path) -> None:
    file = network(tmp_path)
    write_row(tmp_path / "net.json", "measured", [0.5])  # type: ignore[arg-type]
    with pytest.raises(WeightsError, match=r'net\.json has a "measured" that is not an object'):
        load_backbone(file)


def test_a_memory_without_numbers_is_described_as_before() -> None:
    about = MemoryInfo("net.onnx", "0" * 32, 64, False, "test")
    assert b"measured" not in about.as_json()
    assert hash(replace(about, measured=NUMBERS)) == hash(about)
