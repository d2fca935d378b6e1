"""Vectors of a data set: computed once, stored with their record, resumed after a stop."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from support.processes import importing_tests
from test_datasets import as_archive, as_folders, as_pickles, drawn, pictures_in

from cbcl.errors import DataError, WeightsError
from cbcl.files import cache_folder
from cbcl.vision.backbones.base import Function
from cbcl.vision.onnx_graph import Filters, NetworkGraph
from cbcl_study.data import vectors
from cbcl_study.data.datasets import CIFAR100, fingerprint, load
from cbcl_study.data.vectors import features
from cbcl_study.records import Run
from cbcl_study.runs import perform


class Colours:
    """A backbone: the mean colour of each picture. It counts pictures, and can stop on the way."""

    def __init__(self, stop_after: int | None = None, name: str = "colours") -> None:
        self.seen = 0
        self.stop_after = stop_after
        self.backbone = Function(self.means, name, at_least=8)

    def means(self, pictures: Sequence[Image.Image]) -> list[Any]:
        if self.stop_after is not None and self.seen + len(pictures) > self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(pictures)
        return [np.asarray(picture).mean(axis=(0, 1)) for picture in pictures]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def things(tmp_path: Path) -> Path:
    return pictures_in(tmp_path / "things", {"cup": 3, "pen": 2})


def test_vectors_are_kept_with_their_record_and_found_again_without_the_directory(
    home: Path, tmp_path: Path
) -> None:
    folder = as_folders(tmp_path / "cifar100", drawn())
    colours = Colours()
    first = features("cifar100", colours.backbone, folder=folder, home=home)
    assert colours.seen == 18
    pictures = load("cifar100", folder).pictures
    assert first.labels.tolist() == [picture.label for picture in pictures]
    assert first.test is not None
    assert first.test.tolist() == [picture.test for picture in pictures]
    assert first.vectors.dtype == np.float32
    assert not first.vectors.flags.writeable
    wanted = {
        "pictures": 18,
        "classes": 3,
        "dimension": 3,
        "backbone": "colours",
        "data": "cifar100",
    }
    assert {key: first.about[key] for key in wanted} == wanted
    assert first.about["fingerprint"] == fingerprint(pictures)
    assert first.about["weights"] == colours.backbone.fingerprint
    assert first.about["vectors"] == sha256(first.vectors.tobytes()).hexdigest()
    assert {"cbcl", "numpy", "pillow"} <= set(first.about["versions"])
    again = features("cifar100", colours.backbone, home=home)
    assert colours.seen == 18
    np.testing.assert_array_equal(again.vectors, first.vectors)
    assert again.labels.tolist() == first.labels.tolist()
    assert again.about == first.about
    (place,) = (home / "study").iterdir()
    assert place.name == "cifar100-colours"
    assert sorted(path.name for path in place.iterdir()) == [
        "about.json",
        "labels.json",
        "vectors.npy",
    ]


def test_the_layout_changes_no_vector(tmp_path: Path) -> None:
    pictures = drawn()
    made = [
        features("cifar100", Colours().backbone, folder=folder, home=tmp_path / f"home{number}")
        for number, folder in enumerate(
            [
                as_folders(tmp_path / "a", pictures),
                as_pickles(tmp_path / "b", CIFAR100, pictures),
                as_archive(tmp_path / "c", CIFAR100, pictures),
            ]
        )
    ]
    assert len({one.about["vectors"] for one in made}) == 1
    assert len({one.about["labels"] for one in made}) == 1
    assert len({one.about["fingerprint"] for one in made}) == 1


@pytest.mark.parametrize(
    "layout", [as_folders, lambda folder, pictures: as_archive(folder, CIFAR100, pictures)]
)
def test_what_was_stopped_goes_on_where_it_was(
    layout: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Function, "batch", 4)
    folder = layout(tmp_path / "data", drawn())
    stopping = Colours(stop_after=10)
    with pytest.raises(KeyboardInterrupt):
        features("cifar100", stopping.backbone, folder=folder, home=home)
    assert stopping.seen == 8
    with pytest.raises(DataError, match="are not here"):
        features("cifar100", stopping.backbone, home=home)
    going_on = Colours()
    made = features("cifar100", going_on.backbone, folder=folder, home=home)
    assert going_on.seen == 10
    at_once = features("cifar100", Colours().backbone, folder=folder, home=tmp_path / "other")
    np.testing.assert_array_equal(made.vectors, at_once.vectors)


KILLED = """
import os, sys
from pathlib import Path
from test_vectors import Colours
from cbcl_study.data.vectors import features
from cbcl_study.records import Run
from cbcl_study.runs import perform

class Killed(Colours):
    def means(self, pictures):
        if self.seen > 1000:
            os._exit(9)
        return super().means(pictures)

features("digits", Killed().backbone, home=Path(sys.argv[1]))
"""


def test_what_was_killed_goes_on_as_well(home: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(home)]
    done = subprocess.run(command, env=importing_tests(), check=False)
    assert done.returncode == 9
    going_on = Colours()
    made = features("digits", going_on.backbone, home=home)
    # Four times 256 were kept, and of some digits there are two.
    assert 1797 - 4 * 256 - 10 <= going_on.seen <= 1797 - 3 * 256
    at_once = features("digits", Colours().backbone, home=home / "other")
    assert made.about["vectors"] == at_once.about["vectors"]
    (place,) = (home / "study").iterdir()
    (left,) = place.glob(".vectors.npy.*.part")  # it may be another's that is at work
    assert {path.name for path in place.iterdir()} - {left.name} == {
        "about.json",
        "labels.json",
        "vectors.npy",
    }


def test_what_one_that_was_killed_left_is_removed_a_day_later(home: Path, things: Path) -> None:
    features(str(things), Colours().backbone, home=home)
    (place,) = (home / "study").iterdir()
    old, young = place / ".vectors.npy.1.part", place / ".vectors.npy.2.part"
    for path, hours in ((old, 25), (young, 23)):
        path.write_bytes(b"unfinished")
        os.utime(path, (time.time() - 3600 * hours,) * 2)
    features(str(things), Colours().backbone, home=home, anew=True)
    assert not old.exists()
    assert young.read_bytes() == b"unfinished"


def test_the_record_is_the_last_to_be_written(
    home: Path, things: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def torn(path: Path, _: bytes) -> None:
        raise OSError(28, f"no space left for {path.name}")

    with monkeypatch.context() as patch:
        patch.setattr(vectors, "write_atomically", torn)
        with pytest.raises(
            DataError, match=r"cannot hold the vectors: no space left for labels\.json"
        ):
            features(str(things), Colours().backbone, home=home)
    again = Colours()
    features(str(things), again.backbone, home=home)
    assert again.seen == 0  # the vectors were there, and are not computed again


def test_vectors_are_made_in_pieces_as_well(
    home: Path, things: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    at_once = features(str(things), Colours().backbone, home=home / "a")
    monkeypatch.setattr(vectors, "BATCH_PICTURES", 2)
    in_pieces = features(
        str(things), Colours().backbone, home=home / "b", progress=lambda *now: told.append(now)
    )
    assert in_pieces.about["vectors"] == at_once.about["vectors"]
    assert told == [(done, 5) for done in (1, 2, 3, 4, 5)] * 2  # read, then seen


def test_a_folder_that_changed_is_seen_anew_and_one_that_is_gone_is_remembered(
    home: Path, things: Path
) -> None:
    first = features(str(things), Colours().backbone, home=home)
    assert first.test is None
    unchanged = Colours()
    features(str(things), unchanged.backbone, home=home)
    assert unchanged.seen == 0
    Image.new("RGB", (9, 9), "red").save(things / "cup" / "image_0000.jpg")
    changed = features(str(things), Colours().backbone, home=home)
    assert changed.about["fingerprint"] != first.about["fingerprint"]
    assert changed.about["vectors"] != first.about["vectors"]
    things.rename(things.with_name("elsewhere"))
    assert features(str(things), Colours().backbone, home=home).about == changed.about


def test_folders_of_one_name_are_kept_apart(home: Path, tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        features(
            str(pictures_in(tmp_path / name / "my things!", {"x": 1, "y": 1}, seed)),
            Colours().backbone,
            home=home,
        )
    names = sorted(place.name for place in (home / "study").iterdir())
    assert len(names) == 2
    assert all(name.startswith("my-things-") and name.endswith("-colours") for name in names)


def test_a_picture_that_cannot_be_read_fails_the_whole(home: Path, things: Path) -> None:
    (things / "pen" / "notes.txt").write_text("no picture")
    with pytest.raises(
        DataError,
        match=r"pen/notes\.txt cannot be used, and a study drops no pictures: .*it is text",
    ):
        features(str(things), Colours().backbone, home=home)


def test_vectors_that_are_no_numbers_are_refused(home: Path, things: Path) -> None:
    broken = Function(lambda pictures: [[np.nan]] * len(pictures), "broken", at_least=8)
    with pytest.raises(DataError, match=r"broken gives .* not all finite"):
        features(str(things), broken, home=home)


def test_what_is_not_kept_is_told_with_the_command_that_makes_it(home: Path) -> None:
    message = "`cbcl bench vectors cub200 --data DIR --backbone efficientnet-lite0` makes them"
    with pytest.raises(DataError, match=f"through efficientnet-lite0 are not here: {message}"):
        features("cub200", "efficientnet-lite0", home=home)
    with pytest.raises(DataError, match="'mnist' is neither a data set"):
        features("mnist", "efficientnet-lite0", home=home)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("vectors.npy", lambda stored: stored[:-4]),
        ("vectors.npy", lambda stored: stored + b"more"),
        ("vectors.npy", lambda stored: stored.replace(b"}", b" ", 1)),
        ("vectors.npy", lambda _: saved(np.zeros((5, 3)))),
        ("labels.json", lambda stored: stored.replace(b"cup", b"mug")),
        ("labels.json", lambda _: b'{"labels": [], "test": [[1], 2]}'),
        ("labels.json", None),  # it is gone
        ("about.json", lambda _: b"{"),
        ("about.json", lambda _: b"[" * 100_000),
    ],
)
def test_what_was_damaged_is_made_again(name: str, harm: Any, home: Path, things: Path) -> None:
    want = features(str(things), Colours().backbone, home=home).about["vectors"]
    (place,) = (home / "study").iterdir()
    stored = (place / name).read_bytes()
    (place / name).unlink()
    if harm is not None:
        (place / name).write_bytes(harm(stored))
    colours = Colours()
    assert features(str(things), colours.backbone, home=home).about["vectors"] == want
    assert colours.seen == 5


def saved(array: NDArray[Any]) -> bytes:
    np.save(file := BytesIO(), array)
    return file.getvalue()


def test_other_weights_are_not_taken_for_those_kept(home: Path, tmp_path: Path) -> None:
    folder = as_folders(tmp_path / "data", drawn())
    features("cifar100", Colours().backbone, folder=folder, home=home)
    (place,) = (home / "study").iterdir()
    about = json.loads((place / "about.json").read_text())
    (place / "about.json").write_text(json.dumps({**about, "weights": "0" * 32}))
    with pytest.raises(
        DataError, match="were made with other weights: `cbcl bench vectors cifar100"
    ):
        features("cifar100", Colours().backbone, home=home)
    again = Colours()
    assert (
        features("cifar100", again.backbone, folder=folder, home=home).about["weights"]
        == about["weights"]
    )
    assert again.seen == 18


def test_vectors_are_made_anew_where_that_is_asked(home: Path, tmp_path: Path) -> None:
    folder = as_folders(tmp_path / "data", drawn())
    features("cifar100", Colours().backbone, folder=folder, home=home)
    anew = Colours()
    features("cifar100", anew.backbone, folder=folder, home=home, anew=True)
    assert anew.seen == 18


def test_the_digits_are_vectors_already() -> None:
    found = features("digits", "identity")
    assert found.vectors.shape == (1797, 64)
    assert found.vectors.max() == 16.0
    want = load_digits()
    rows = {
        (str(label), row.tobytes())
        for label, row in zip(want.target, want.data.astype(np.float32), strict=True)
    }
    assert {
        (str(label), row.tobytes()) for label, row in zip(found.labels, found.vectors, strict=True)
    } == rows
    assert (cache_folder() / "study" / "digits-identity" / "about.json").exists()


def test_the_digits_are_pictures_as_well(home: Path) -> None:
    found = features("digits", Colours().backbone, home=home)
    assert found.vectors.shape == (1797, 3)


@pytest.mark.parametrize("layout", [as_folders, lambda *of: as_archive(of[0], CIFAR100, of[1])])
def test_the_pixels_of_cifar_are_stored_as_they_are_a_byte_each(
    layout: Any, home: Path, tmp_path: Path
) -> None:
    pictures = drawn()
    found = features("cifar100", "pixels", folder=layout(tmp_path / "data", pictures), home=home)
    assert found.vectors.dtype == np.uint8
    assert found.test is not None
    rows = zip(found.labels.tolist(), found.test.tolist(), found.vectors, strict=True)
    assert {(label, test, row.tobytes()) for label, test, row in rows} == {
        (label, test, pixels.tobytes()) for label, test, pixels in pictures
    }
    assert found.about["vectors"] == sha256(found.vectors.tobytes()).hexdigest()
    assert found.about["preprocessing"]["size"] == 32
    (place,) = (home / "study").iterdir()
    assert place.name == "cifar100-pixels"
    assert (place / "vectors.npy").stat().st_size < 2 * found.vectors.nbytes


def test_a_learner_of_vectors_learns_from_pixels_as_from_numbers(
    home: Path, tmp_path: Path
) -> None:
    folder = as_folders(tmp_path / "data", drawn())
    pixels = features("cifar100", "pixels", folder=folder, home=home)
    numbers = replace(pixels, vectors=pixels.vectors.astype(np.float32))
    for learner in ("cbcl", "ncm", "discriminant"):
        run = Run("cifar100", "pixels", learner, None, 1, None, None, 3, 0)
        one, other = (perform(run, given) for given in (pixels, numbers))
        assert one["right"] == other["right"]
        assert one["bytes"] == other["bytes"]


def test_pictures_are_no_vectors(home: Path, things: Path) -> None:
    with pytest.raises(DataError, match="identity takes no pictures, such as cup/"):
        features(str(things), "identity", home=home)


def test_visual_words_are_fitted_to_the_background_or_to_pictures_that_are_no_test(
    home: Path, tmp_path: Path
) -> None:
    pictures_in(tmp_path / "caltech101", {"cup": 3, "pen": 2, "BACKGROUND_Google": 4})
    found = features("caltech101", "visual-words", folder=tmp_path, home=home)
    assert found.about["fitted_to"] == {"pictures": 4, "of": "background"}
    assert found.about["preprocessing"]["revision"] == 1
    assert features("caltech101", "visual-words", home=home).about == found.about
    split = features(
        "cifar100", "visual-words", folder=as_folders(tmp_path / "c", drawn()), home=home
    )
    assert split.about["fitted_to"] == {"pictures": 12, "of": "training pictures"}


def test_a_networks_preprocessing_is_in_the_record(home: Path, things: Path) -> None:
    found = features(str(things), "efficientnet-lite0", home=home)
    assert found.vectors.shape == (5, 1280)
    assert found.about["preprocessing"]["size"] == 224
    assert found.about["fitted_to"] is None
    things.rename(things.with_name("elsewhere"))
    assert features(str(things), "efficientnet-lite0", home=home).about == found.about


def small_network(path: Path, scale: float) -> None:
    """Write a network whose vector is the mean colour, as often as `scale` says."""
    graph = NetworkGraph("small", 16)
    colours = scale * np.eye(3)[:, :, np.newaxis, np.newaxis]
    path.write_bytes(graph.finish(graph.conv(graph.pictures, Filters(colours, np.zeros(3)))))
    how = {"size": 16, "mean": [0, 0, 0], "scale": [255, 255, 255]}
    path.with_suffix(".json").write_text(json.dumps(how))


def test_views_and_joined_networks_have_vectors_of_their_own_made_again_when_a_part_changes(
    home: Path, things: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_network(tmp_path / "a.onnx", 1.0)
    small_network(tmp_path / "b.onnx", 1.0)
    names = ["a.onnx", "a.onnx@2views", "a.onnx@2views+b.onnx", "b.onnx+a.onnx@2views"]
    with pytest.raises(WeightsError, match="is given twice"):
        features(str(things), "a.onnx+b.onnx", home=home)
    small_network(tmp_path / "b.onnx", 2.0)
    first = [features(str(things), name, home=home) for name in names]
    assert [stored.about["backbone"] for stored in first] == names
    assert [stored.about["dimension"] for stored in first] == [3, 3, 6, 6]
    places = sorted(path.name for path in (home / "study").iterdir())
    assert len(places) == 4
    assert all(re.fullmatch(r"[\w-]+", place) for place in places)
    for name, stored in zip(names, first, strict=True):  # by the whole path, the same
        whole = re.sub(r"\b(?=[ab]\.onnx)", f"{tmp_path}/", name)
        again = features(str(things), whole, home=home)
        assert again.about == stored.about
    small_network(tmp_path / "b.onnx", 3.0)
    changed = [
        features(str(things), name, home=home).about["weights"] != stored.about["weights"]
        for name, stored in zip(names, first, strict=True)
    ]
    assert changed == [False, False, True, True]
