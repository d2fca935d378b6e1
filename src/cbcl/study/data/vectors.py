"""The vectors of a data set through a backbone, computed once and kept on disk with the record of how.

n pictures, d features.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import DataError, PictureError
from cbcl.files import write_atomically
from cbcl.folders import cache_folder
from cbcl.machine import description, one_thread
from cbcl.study.data.datasets import (
    DIGITS,
    DIGITS_HEADER,
    NAMES,
    DataSet,
    LabelledPicture,
    fingerprint,
    load,
)
from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl.vision.backbones.catalogue import CATALOGUE, is_available
from cbcl.vision.decoding import Floats
from cbcl.vision.decoding import load as load_picture
from cbcl.vision.extraction import Progress, extract
from cbcl.vision.vector_cache import VectorCache

MAX_FITTED = 500  # pictures that a backbone is shown which must see some first
CACHE = "underway.sqlite"
A_DAY = 86_400.0
AT_ONCE = 4096  # pictures between two looks at what went wrong


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of a data set, and the record of how they were made."""

    vectors: Floats  # (n, d), read-only, on disk
    labels: NDArray[np.str_]  # (n,)
    test: NDArray[np.bool_] | None  # (n,); None: the set has no split of its own
    about: dict[str, Any]


def features(
    data: str,
    backbone: str | Backbone | Fittable,
    *,
    folder: Path | None = None,
    home: Path | None = None,
    anew: bool = False,
    progress: Progress | None = None,
) -> Features:
    """The kept vectors of a data set; those not kept yet are computed from the directory that holds it, and kept.

    Where vectors are kept, that directory is not looked at, unless `anew`; only a folder that goes by its path is
    read again, and its vectors made again if a picture in it changed. Stopped at any time, the same call goes on.
    """
    name = backbone if isinstance(backbone, str) else backbone.name
    place = (
        (home or cache_folder())
        / "study"
        / f"{_safe(data, data not in NAMES)}-{_safe(name, _is_file(name))}"
    )
    here = None if anew else _kept(place)
    stale = here is not None and _is_stale(here, backbone)
    within_reach = data == DIGITS or (folder is not None if data in NAMES else Path(data).is_dir())
    if here is not None and not stale and (data in NAMES or not within_reach):
        return here
    if not within_reach and (stale or data in NAMES):
        raise DataError(
            f"the vectors of {data} through {name} {'were made with other weights' if stale else 'are not here'}: "
            f"`cbcl bench vectors {data} --data DIR --backbone {name}` makes them."
        )
    found = load(data, folder, progress=progress)
    if here is not None and not stale and here.about["fingerprint"] == fingerprint(found.pictures):
        return here
    _make(place, found, load_backbone(backbone), progress)
    made = _kept(place)
    if made is None:
        raise DataError(
            f"the vectors in {place} were changed while they were made: make them again."
        )
    return made


def kept(home: Path | None = None) -> dict[str, list[str]]:
    """The data sets whose vectors are kept, each with the backbones they were seen through."""
    found: dict[str, list[str]] = {}
    for place in sorted((home or cache_folder()).glob("study/*")):
        if (here := _kept(place)) is not None:
            found.setdefault(here.about["data"], []).append(here.about["backbone"])
    return found


def _is_file(backbone: str) -> bool:
    return backbone.endswith(".onnx")


def _safe(name: str, is_path: bool) -> str:
    """A name that can be part of a file's; of a path, the last part and a few digits of the whole.

    >>> _safe("cifar100", False), _safe("timm/vit_base", False)
    ('cifar100', 'vit_base-26f9b34e')
    """
    if not is_path and re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        return name
    whole = os.path.abspath(name) if is_path else name
    plain = re.sub(r"[^\w-]+", "-", Path(whole).name).strip("-")[:40]
    return f"{plain}-{sha256(whole.encode()).hexdigest()[:8]}"


def _is_stale(kept: Features, backbone: str | Backbone | Fittable) -> bool:
    """Whether the backbone is here, without anything being fetched or fitted, and is another by now."""
    if isinstance(backbone, str):
        here = (
            is_available(backbone)
            if backbone in CATALOGUE
            else _is_file(backbone) and Path(backbone).is_file()
        )
        if not here:
            return False
        backbone = load_backbone(backbone)
    return not isinstance(backbone, Fittable) and backbone.fingerprint != kept.about["weights"]


def _kept(place: Path) -> Features | None:
    """What is kept in a folder, if it is whole; that the numbers are those of the record is not computed each time."""
    try:
        about = json.loads((place / "about.json").read_bytes())
        listed = (place / "labels.json").read_bytes()
        vectors = np.load(place / "vectors.npy", mmap_mode="r", allow_pickle=False)
        size = (place / "vectors.npy").stat().st_size
        labels, test = json.loads(listed)["labels"], json.loads(listed)["test"]
        whole = (
            vectors.dtype == np.float32
            and vectors.shape == (about["pictures"], about["dimension"])
            and size == vectors.offset + vectors.nbytes
            and sha256(listed).hexdigest() == about["labels"]
            and {"data", "fingerprint", "weights", "vectors", "preprocessing"} <= set(about)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError):
        return None
    return (
        Features(vectors, np.array(labels), None if test is None else np.array(test), about)
        if whole
        else None
    )


def _make(
    place: Path, data: DataSet, backbone: Backbone | Fittable, progress: Progress | None
) -> None:
    begun = perf_counter()
    fitted_to = None
    if isinstance(backbone, Fittable):
        backbone, fitted_to = _fitted(backbone, data)
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / "about.json").unlink(
            missing_ok=True
        )  # which is written last, so that the three belong together
        dimension, digest = _write_vectors(place, data.pictures, backbone, progress)
        split = [picture.test for picture in data.pictures] if data.own_split else None
        listed = json.dumps(
            {"labels": [picture.label for picture in data.pictures], "test": split}
        ).encode()
        write_atomically(place / "labels.json", listed)
        about = {
            **_described(data, backbone),
            "fitted_to": fitted_to,
            "dimension": dimension,
            "vectors": digest,
            "labels": sha256(listed).hexdigest(),
            "seconds": round(perf_counter() - begun, 1),  # of the last go, where there were several
        }
        write_atomically(place / "about.json", json.dumps(about, indent=1).encode())
        _remove_cache(place)
    except OSError as error:
        raise DataError(
            f"the vectors cannot be kept in {place}: {error.strerror or error}."
        ) from error


def _described(data: DataSet, backbone: Backbone) -> dict[str, Any]:
    return {
        "data": data.name,
        "pictures": len(data.pictures),
        "classes": len({picture.label for picture in data.pictures}),
        "fingerprint": fingerprint(data.pictures),
        "backbone": Path(backbone.name).name if _is_file(backbone.name) else backbone.name,
        "weights": backbone.fingerprint,
        "preprocessing": backbone.description,
        "machine": description(),
        "versions": _versions("cbcl", "numpy", "pillow", "onnxruntime"),
    }


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):  # ONNX Runtime goes by other names, too
            found[name] = version(name)
    return found


def _fitted(backbone: Fittable, data: DataSet) -> tuple[Backbone, dict[str, Any]]:
    """Fitted to pictures that are no test: to those of no class where there are such, else evenly over all."""
    to_learn = [(picture.source, picture.name) for picture in data.pictures if not picture.test]
    others = [(source, f"background {number}") for number, source in enumerate(data.background)]
    which = "background" if others else "training pictures" if data.own_split else "all pictures"
    shown = (others or to_learn)[:: -(-len(others or to_learn) // MAX_FITTED)]
    try:
        pictures = [load_picture(source, name, backbone.at_least or 1) for source, name in shown]
    except PictureError as error:
        raise DataError(str(error)) from error
    return backbone.fit(pictures), {"pictures": len(pictures), "of": which}


def _write_vectors(
    place: Path, pictures: Sequence[LabelledPicture], backbone: Backbone, progress: Progress | None
) -> tuple[int, str]:
    """Vectors to disk as they come: how many numbers each has, and the SHA-256 of all."""
    for left in place.glob(
        ".vectors.npy.*.part"
    ):  # by one that was killed, long ago: another may be at work
        if time() - left.stat().st_mtime > A_DAY:
            left.unlink(missing_ok=True)
    part = place / f".vectors.npy.{os.getpid()}.part"
    whole = sha256()
    try:
        with _cache(backbone, place) as cache, part.open("wb") as file:
            chunks = _chunks(backbone, pictures, cache, progress)
            first = next(chunks)
            shape = (len(pictures), first.shape[1])
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": shape}
            )
            for chunk in chain([first], chunks):
                numbers = chunk.astype("<f4", copy=False).tobytes()
                whole.update(numbers)
                file.write(numbers)
            file.flush()
            os.fsync(file.fileno())
        part.replace(place / "vectors.npy")
    finally:
        part.unlink(missing_ok=True)
    return shape[1], whole.hexdigest()


def _chunks(
    backbone: Backbone,
    pictures: Sequence[LabelledPicture],
    cache: VectorCache | None,
    progress: Progress | None,
) -> Iterator[Floats]:
    def told(done: int, _: int) -> None:
        if progress is not None:
            progress(start + done, len(pictures))

    for start in range(0, len(pictures), AT_ONCE):
        some = pictures[start : start + AT_ONCE]
        with one_thread() if backbone.threads else nullcontext():  # a picture a thread is enough
            found = extract(
                backbone, [_thing(one, backbone) for one in some], cache=cache, progress=told
            )
        for picture, vector in zip(some, found, strict=True):
            if isinstance(vector, PictureError):
                raise DataError(
                    f"{picture.name} cannot be used, and a study drops no pictures: {vector}"
                )
            if not np.isfinite(vector).all():
                raise DataError(
                    f"{backbone.name} gives {picture.name} a vector of numbers that are not all finite."
                )
        yield np.stack([vector for vector in found if not isinstance(vector, PictureError)])


def _thing(picture: LabelledPicture, backbone: Backbone) -> Any:
    """What the backbone is to be given: a picture, or the 64 values of a digit."""
    if backbone.at_least is not None:
        return picture.source
    if isinstance(picture.source, bytes) and picture.source.startswith(DIGITS_HEADER):
        return np.frombuffer(picture.source, np.uint8, offset=len(DIGITS_HEADER)).astype(np.float32)
    raise DataError(
        f"{backbone.name} takes no pictures, such as {picture.name}: give a backbone that does."
    )


@contextmanager
def _cache(backbone: Backbone, place: Path) -> Iterator[VectorCache | None]:
    """A cache of its own, until all vectors are there: half a gigabyte would drive the user's out of the common one."""
    if backbone.at_least is None:
        yield None
        return
    with closing(VectorCache(backbone.fingerprint, place / CACHE)) as cache:
        yield cache


def _remove_cache(place: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        (place / f"{CACHE}{ending}").unlink(missing_ok=True)
