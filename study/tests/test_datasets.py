"""Data sets: the same pictures in the same order, whatever their layout; and downloads."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.file_server import FileServer, file_server

from cbcl.errors import DataError
from cbcl.vision.decoding import Pixels
from cbcl.vision.decoding import load as load_picture
from cbcl_study.data.cifar import CifarArchive
from cbcl_study.data.datasets import CIFAR10, CIFAR100, DATA_SOURCES, fingerprint, load
from cbcl_study.data.downloads import ARCHIVES, Archive, download

unpacks = pytest.mark.skipif(
    not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4 cannot unpack safely"
)

CLASSES = ("aquarium_fish", "bee", "maple_tree")


def pickled(value: object) -> bytes:
    """A pickle with text and bytes as Python 2 wrote them, which wrote CIFAR."""

    def save_string(pickler: Any, text: str | bytes) -> None:
        data = text.encode("latin1") if isinstance(text, str) else text
        head = b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))
        pickler.write(head + data)
        pickler.memoize(text)

    file = io.BytesIO()
    pickler: Any = pickle._Pickler(file, 2)
    pickler.dispatch = {**pickler.dispatch, str: save_string, bytes: save_string}
    pickler.dump(value)
    return file.getvalue()


def drawn(seed: int = 0) -> list[tuple[str, bool, Pixels]]:
    """Four pictures a class to learn from, and two to test with."""
    rng = np.random.default_rng(seed)
    return [
        (label, number >= 4, rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
        for label in CLASSES
        for number in range(6)
    ]


def as_folders(folder: Path, pictures: list[tuple[str, bool, Pixels]]) -> Path:
    for number, (label, test, pixels) in enumerate(pictures):
        path = folder / ("test" if test else "train") / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    (folder / "README.md").write_text("beside the pictures")
    return folder


def as_pickles(folder: Path, cifar: CifarArchive, pictures: list[tuple[str, bool, Pixels]]) -> Path:
    place = folder / cifar.folder
    place.mkdir(parents=True)
    (place / cifar.meta).write_bytes(pickled({cifar.names: list(CLASSES)}))
    for test, parts in ((False, cifar.train), (True, cifar.test)):
        of_split = [
            (label, pixels) for label, is_test, pixels in reversed(pictures) if is_test is test
        ]
        for number, part in enumerate(parts):
            some = of_split[number :: len(parts)]
            data = np.array([pixels.transpose(2, 0, 1).ravel() for _, pixels in some])
            labels = [CLASSES.index(label) for label, _ in some]
            (place / part).write_bytes(
                pickled({"data": data, cifar.labels: labels, "batch_label": part})
            )
    return folder


def as_archive(folder: Path, cifar: CifarArchive, pictures: list[tuple[str, bool, Pixels]]) -> Path:
    as_pickles(folder / "unpacked", cifar, pictures)
    with tarfile.open(folder / cifar.archive, "w:gz") as archive:
        archive.add(folder / "unpacked" / cifar.folder, cifar.folder)
    return folder


@pytest.mark.parametrize(("name", "cifar"), [("cifar100", CIFAR100), ("cifar10", CIFAR10)])
def test_every_layout_of_cifar_gives_the_same_pictures_in_the_same_order(
    name: str, cifar: CifarArchive, tmp_path: Path
) -> None:
    pictures = drawn()
    folders = as_folders(tmp_path / "a", pictures)
    others = [
        as_pickles(tmp_path / "b", cifar, pictures),
        tmp_path / "b" / cifar.folder,
        as_archive(tmp_path / "c", cifar, pictures),
        as_folders(tmp_path / "d" / name, pictures).parent,
        as_pickles(tmp_path / "e" / name, cifar, pictures).parent,
    ]
    first = load(name, folders)
    assert first.own_split
    assert [(picture.label, picture.test) for picture in first.pictures] == sorted(
        (label, test) for label, test, _ in pictures
    )
    for other in others:
        found = load(name, other)
        assert [one._replace(name="") for one in found.pictures] == [
            one._replace(name="") for one in first.pictures
        ]
        assert fingerprint(found.pictures) == fingerprint(first.pictures)
    given = {pixels.tobytes() for _, _, pixels in pictures}
    assert {load_picture(one.source, one.name, 1).tobytes() for one in first.pictures} == given


def test_cifar_written_anew_by_python_3_is_read(tmp_path: Path) -> None:
    pictures = drawn()
    want = load("cifar100", as_pickles(tmp_path / "a", CIFAR100, pictures))
    for protocol in (2, 4):
        folder = as_pickles(tmp_path / f"b{protocol}", CIFAR100, pictures)
        for path in (folder / CIFAR100.folder).iterdir():
            found = pickle.loads(
                path.read_bytes(), encoding="bytes" if path.name == "meta" else "latin1"
            )
            path.write_bytes(pickle.dumps(found, protocol))
        assert load("cifar100", folder) == want


class Harmful:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


def test_a_pickle_that_would_do_harm_is_refused(tmp_path: Path) -> None:
    folder = as_pickles(tmp_path, CIFAR100, drawn())
    (folder / CIFAR100.folder / "train").write_bytes(
        pickle.dumps(Harmful(f"touch {tmp_path}/harm"), 2)
    )
    with pytest.raises(DataError, match=r"train asks for (posix|nt)\.system, .* may do harm"):
        load("cifar100", folder)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        (
            "train",
            pickled({"data": np.zeros((2, 12), np.uint8), "fine_labels": [0, 1]}),
            "holds no 32 x 32",
        ),
        (
            "train",
            pickled({"data": np.zeros((1, 3072), np.uint8), "fine_labels": [3]}),
            "holds no 32 x 32",
        ),
        (
            "train",
            pickled({"data": np.zeros((1, 3072)), "fine_labels": [1]}),
            "holds no 32 x 32",
        ),
        ("train", pickled([1, 2]), "is no batch of pictures"),
        ("meta", pickled({}), "names no classes"),
        ("test", b"torn", "is damaged or of another kind"),
    ],
)
def test_damaged_pickles_are_told(part: str, content: bytes, message: str, tmp_path: Path) -> None:
    folder = as_pickles(tmp_path, CIFAR100, drawn())
    (folder / CIFAR100.folder / part).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load("cifar100", folder)


def test_a_torn_or_incomplete_archive_is_told(tmp_path: Path) -> None:
    folder = as_archive(tmp_path, CIFAR100, drawn())
    (folder / CIFAR100.archive).write_bytes((folder / CIFAR100.archive).read_bytes()[:-500])
    with pytest.raises(DataError, match=r"cifar-100-python\.tar\.gz is damaged or of another kind"):
        load("cifar100", folder)
    with tarfile.open(folder / CIFAR100.archive, "w:gz") as archive:
        archive.add(folder / "unpacked" / CIFAR100.folder / "train", f"{CIFAR100.folder}/train")
    with pytest.raises(DataError, match=r"tar\.gz lacks cifar-100-python/test"):
        load("cifar100", folder)


def pictures_in(folder: Path, classes: dict[str, int], seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    for label, count in classes.items():
        (folder / label).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"image_{number:04}.jpg")
    return folder


def test_caltech_without_its_background(tmp_path: Path) -> None:
    folder = tmp_path / "caltech-101"
    pictures_in(folder / "101_ObjectCategories", {"cup": 3, "Faces": 2, "BACKGROUND_Google": 4})
    (folder / "train.txt").write_text("others put lists beside it")
    first = load("caltech101", tmp_path)
    assert [picture.label for picture in first.pictures] == ["Faces"] * 2 + ["cup"] * 3
    assert {picture.test for picture in first.pictures} == {None}
    assert len(first.background) == 4
    assert not first.own_split
    assert (
        load("caltech101", folder) == load("caltech101", folder / "101_ObjectCategories") == first
    )


@pytest.fixture
def cub(tmp_path: Path) -> tuple[Path, Path]:
    """Five pictures in the original layout, and in folders of train and test."""
    original, folders = tmp_path / "a" / "CUB_200_2011", tmp_path / "b"
    pictures_in(original / "images", {"001.Albatross": 3, "002.Auklet": 2})
    names = sorted(
        path.relative_to(original / "images").as_posix() for path in original.rglob("*.jpg")
    )
    lists: dict[str, list[str]] = {"images.txt": [], "train_test_split.txt": []}
    for number, name in enumerate(names, 1):
        lists["images.txt"].append(f"{number} {name}\n")
        lists["train_test_split.txt"].append(f"{number} {number % 2}\n")
        path = folders / ("train" if number % 2 else "test") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((original / "images" / name).read_bytes())
    for file, lines in lists.items():
        (original / file).write_text("".join(lines))
    return original, folders


@pytest.mark.parametrize("name", ["cub200", "cub200-official"])
def test_both_layouts_of_cub_give_the_same_pictures(name: str, cub: tuple[Path, Path]) -> None:
    original, folders = cub
    first, second = load(name, original.parent), load(name, folders)
    for one, other in zip(first.pictures, second.pictures, strict=True):
        assert (one.label, one.test, one.digest) == (other.label, other.test, other.digest)
    (original / "images" / "001.Albatross" / "image_0000.jpg").unlink()
    with pytest.raises(
        DataError, match=r"lists 5 pictures, but 001\.Albatross/image_0000\.jpg is missing"
    ):
        load(name, original)


def test_cubs_own_split_is_kept_where_it_is_asked_for(cub: tuple[Path, Path]) -> None:
    original, _ = cub
    assert {one.test for one in load("cub200", original).pictures} == {None}
    official = load("cub200-official", original)
    assert official.own_split
    assert {one.name: one.test for one in official.pictures} == {
        "001.Albatross/image_0000.jpg": False,
        "001.Albatross/image_0001.jpg": True,
        "001.Albatross/image_0002.jpg": False,
        "002.Auklet/image_0000.jpg": True,
        "002.Auklet/image_0001.jpg": False,
    }
    split = original / "train_test_split.txt"
    split.write_text("1 1\n2 0\n")
    with pytest.raises(DataError, match=r"split\.txt splits 2 pictures, not the 5 of images\.txt"):
        load("cub200-official", original)
    split.unlink()
    with pytest.raises(DataError, match=r"split\.txt cannot be read: No such file"):
        load("cub200-official", original)


def test_any_folder_of_folders_is_a_data_set(tmp_path: Path) -> None:
    found = load(str(pictures_in(tmp_path / "things", {"cup": 2, "pen": 3})))
    assert (found.name, found.own_split) == ("folder things", False)
    assert [(one.label, one.test) for one in found.pictures] == [("cup", None)] * 2 + [
        ("pen", None)
    ] * 3
    assert found.pictures[0].name.startswith("cup/image_")


def test_train_and_test_in_a_folder_are_its_split(tmp_path: Path) -> None:
    pictures_in(tmp_path / "train", {"cup": 2, "pen": 3})
    with pytest.raises(DataError, match="holds train but not both train and test"):
        load(str(tmp_path))
    pictures_in(tmp_path / "test", {"cup": 1})
    with pytest.raises(DataError, match="has pictures of 'pen' only to learn or only to test"):
        load(str(tmp_path))
    pictures_in(tmp_path / "test", {"pen": 1})
    found = load(str(tmp_path))
    assert found.own_split
    assert [one.test for one in found.pictures] == [False, False, True, False, False, False, True]


def test_trains_and_tests_may_be_classes(tmp_path: Path) -> None:
    assert not load(str(pictures_in(tmp_path, {"train": 1, "test": 1}))).own_split


def test_the_digits_need_no_directory() -> None:
    found = load("digits")
    assert len(found.pictures) == 1797
    assert {one.label for one in found.pictures} == set("0123456789")
    assert load_picture(found.pictures[0].source, "", 1).size == (8, 8)
    assert max(load_picture(found.pictures[0].source, "", 1).tobytes()) == 255


def test_the_fingerprint_changes_with_a_picture_a_label_and_the_split_and_nothing_else(
    tmp_path: Path,
) -> None:
    folder = pictures_in(tmp_path / "things", {"cup": 2, "pen": 2})
    first = fingerprint(load(str(folder)).pictures)
    (folder / "cup" / "image_0000.jpg").rename(folder / "cup" / "z.jpg")
    assert fingerprint(load(str(folder.rename(tmp_path / "same"))).pictures) == first
    folder = tmp_path / "same"
    (folder / "cup").rename(folder / "mug")
    renamed = fingerprint(load(str(folder)).pictures)
    Image.new("RGB", (9, 9)).save(folder / "mug" / "z.jpg")
    changed = fingerprint(load(str(folder)).pictures)
    pictures = load(str(folder)).pictures
    split = fingerprint([one._replace(test=False) for one in pictures])
    assert len({first, renamed, changed, split}) == 4


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    load(
        str(pictures_in(tmp_path, {"a": 2, "b": 1})),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_what_is_not_there_is_told_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"'mnist' is neither a data set \(cifar100, .* digits\) nor a folder here",
    ):
        load("mnist")
    with pytest.raises(
        DataError,
        match=r"cifar100 needs the directory .*`cbcl bench download cifar100 DIR` downloads",
    ):
        load("cifar100")
    with pytest.raises(DataError, match="is no directory, so cub200 cannot be in it"):
        load("cub200", tmp_path / "none")
    for name, wanted in (
        ("cifar10", r"cifar-10-python\.tar\.gz"),
        ("caltech101", "101_Obj"),
        ("cub200", "CUB_200"),
        ("cub200-official", "CUB_200"),
    ):
        with pytest.raises(
            DataError, match=f"does not hold {name}, nor does a folder in it: it needs {wanted}"
        ):
            load(name, tmp_path)
    with pytest.raises(DataError, match="is an empty folder"):
        load(str(tmp_path))
    with pytest.raises(DataError, match="has pictures of 1 classes: a study needs two"):
        load(str(pictures_in(tmp_path, {"only": 2})))


def test_a_picture_of_cifar_that_is_none_is_told(tmp_path: Path) -> None:
    folder = as_folders(tmp_path, drawn())
    (folder / "train" / "bee" / "6.png").write_text("no picture")
    with pytest.raises(DataError, match=r"6\.png is not a picture"):
        load("cifar100", folder)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        yield served


@pytest.fixture
def archive(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Archive, FileServer]:
    """CIFAR-100, of a few pictures, where it can be fetched."""
    data = (as_archive(tmp_path / "made", CIFAR100, drawn()) / CIFAR100.archive).read_bytes()
    server.files["cifar-100-python.tar.gz"] = data
    given = ARCHIVES["cifar100"]._replace(
        urls=(f"{server.url}/cifar-100-python.tar.gz",),
        md5=hashlib.md5(data, usedforsecurity=False).hexdigest(),
        size=len(data),
        unpacked=100_000,
    )
    monkeypatch.setitem(ARCHIVES, "cifar100", given)
    return given, server


@unpacks
def test_a_download_is_checked_unpacked_and_found(
    archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    size = archive[0].size
    told: list[tuple[int, int]] = []
    place = download("cifar100", tmp_path / "data", lambda done, total: told.append((done, total)))
    assert place == tmp_path / "data" / "cifar-100-python"
    assert told[-1] == (size, size)
    assert len(load("cifar100", tmp_path / "data").pictures) == 18
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "cifar-100-python",
        "cifar-100-python.tar.gz",
    ]
    download("cifar100", tmp_path / "data")
    assert archive[1].asked == [None]


@unpacks
@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_download_goes_on(
    ranges: bool, archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    serving = archive[1]
    serving.cut, serving.ranges = 1000, ranges
    with pytest.raises(DataError, match=r"broke off .* the same command goes on from there"):
        download("cifar100", tmp_path)
    assert (tmp_path / "cifar-100-python.tar.gz.part").stat().st_size == 1000
    serving.cut = None
    download("cifar100", tmp_path)
    assert serving.asked == [None, "bytes=1000-"]
    assert load("cifar100", tmp_path).own_split


@unpacks
def test_a_part_that_is_already_whole_is_taken(
    archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    data = archive[1].files["cifar-100-python.tar.gz"]
    (tmp_path / "cifar-100-python.tar.gz.part").write_bytes(data)
    download("cifar100", tmp_path)
    assert archive[1].asked == []


def test_a_file_of_another_length_is_refused_before_it_is_fetched(
    archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    archive[1].files["cifar-100-python.tar.gz"] = b"Sorry, we have moved."
    with pytest.raises(DataError, match=r"gives 21 bytes, but cifar-100-python\.tar\.gz has"):
        download("cifar100", tmp_path / "data")
    (part := tmp_path / "data" / "cifar-100-python.tar.gz.part").write_bytes(b"x" * 30)
    with pytest.raises(DataError, match="416"):
        download("cifar100", tmp_path / "data")
    assert not part.exists()


@unpacks
def test_a_file_got_by_other_means_is_checked_and_unpacked(
    archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    path = tmp_path / "cifar-100-python.tar.gz"
    path.write_bytes(b"another")
    with pytest.raises(DataError, match=r"is not the file wanted: its MD5 is .*: delete it"):
        download("cifar100", tmp_path)
    path.write_bytes(archive[1].files[path.name])
    assert download("cifar100", tmp_path).is_dir()
    assert archive[1].asked == []


def test_a_wrong_checksum_leaves_nothing_behind(
    archive: tuple[Archive, FileServer], tmp_path: Path
) -> None:
    data = archive[1].files["cifar-100-python.tar.gz"]
    archive[1].files["cifar-100-python.tar.gz"] = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(DataError, match="is not the file wanted: its MD5"):
        download("cifar100", tmp_path / "data")
    assert [*(tmp_path / "data").iterdir()] == []


@unpacks
def test_the_second_address_is_tried_where_the_first_fails(
    archive: tuple[Archive, FileServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (good,) = archive[0].urls
    monkeypatch.setitem(ARCHIVES, "cifar100", archive[0]._replace(urls=(f"{good}.moved", good)))
    assert download("cifar100", tmp_path).is_dir()


def test_without_room_nothing_is_begun(archive: tuple[Archive, FileServer], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has .* MB free, but cifar100 needs .* MB"):
        download("cifar100", tmp_path / "data", free=lambda _: 50_000)
    assert archive[1].asked == []


def test_without_internet_the_way_round_is_told(
    archive: tuple[Archive, FileServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = archive[0]._replace(urls=("http://127.0.0.1:1/cifar-100-python.tar.gz",))
    monkeypatch.setitem(ARCHIVES, "cifar100", gone)
    with pytest.raises(
        DataError,
        match=r"cifar-100-python\.tar\.gz cannot be downloaded .*get it from .* by other means",
    ):
        download("cifar100", tmp_path)
    with pytest.raises(DataError, match="digits cannot be downloaded: those that can are cifar100"):
        download("digits", tmp_path)


@unpacks
def test_a_hostile_archive_cannot_write_elsewhere(
    archive: tuple[Archive, FileServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as made:
        made.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    data = file.getvalue()
    archive[1].files["cifar-100-python.tar.gz"] = data
    digest = hashlib.md5(data, usedforsecurity=False).hexdigest()
    monkeypatch.setitem(ARCHIVES, "cifar100", archive[0]._replace(md5=digest, size=len(data)))
    with pytest.raises(DataError, match="cannot be unpacked"):
        download("cifar100", tmp_path / "data")
    assert not [*tmp_path.rglob("outside")]


@unpacks
def test_the_archive_inside_caltechs_archive_is_unpacked(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner, outer = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as made:
        made.add(
            pictures_in(tmp_path / "made", {"cup": 2, "pen": 2, "BACKGROUND_Google": 1}),
            "101_ObjectCategories",
        )
    with zipfile.ZipFile(outer, "w") as zipped:
        zipped.writestr("__MACOSX/caltech-101/._101_ObjectCategories.tar.gz", b"")
        zipped.writestr("caltech-101/101_ObjectCategories.tar.gz", inner.getvalue())
    server.files["caltech-101.zip"] = outer.getvalue()
    digest = hashlib.md5(outer.getvalue(), usedforsecurity=False).hexdigest()
    given = ARCHIVES["caltech101"]._replace(
        urls=(f"{server.url}/caltech-101.zip",), md5=digest, size=len(outer.getvalue())
    )
    monkeypatch.setitem(ARCHIVES, "caltech101", given)
    download("caltech101", tmp_path / "data")
    assert len(load("caltech101", tmp_path / "data").pictures) == 4


def test_every_set_that_can_be_downloaded_has_addresses_and_a_checksum() -> None:
    for name, one in ARCHIVES.items():
        assert name in DATA_SOURCES
        assert all(url.startswith("https://") for url in one.urls)
        assert len(bytes.fromhex(one.md5)) == 16
