"""The vectors of a data set through a backbone, computed once, and stored with their record.

n pictures, d features.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator, Iterator, Sequence
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

from cbcl.errors import DataError, PictureError, first_line, reason
from cbcl.files import cache_folder, write_atomically
from cbcl.machine import description, one_thread
from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone, Fittable, map_files, short_name
from cbcl.vision.backbones.catalogue import is_available
from cbcl.vision.decoding import Floats
from cbcl.vision.decoding import load as load_picture
from cbcl.vision.extraction import Progress, extract
from cbcl.vision.shards import embed_in_order
from cbcl.vision.vector_cache import VectorCache
from cbcl_study.backbones.pixels import PixelVectors
from cbcl_study.data.datasets import (
    DIGITS,
    DIGITS_HEADER,
    NAMES,
    DataSet,
    LabelledPicture,
    fingerprint,
    load,
)

MAX_FITTED = 500  # pictures to fit a backbone to
CACHE_NAME = "underway.sqlite"
DAY_SECONDS = 86_400.0
BATCH_PICTURES = 4096  # embedded, and written, at a time
ABOUT_FIELDS = {"data", "fingerprint", "weights", "vectors", "preprocessing"}


@dataclass(frozen=True, eq=False)
class Features:
    """The vectors of a data set, and the record of how they were made."""

    vectors: NDArray[Any]  # (n, d), float32, or uint8 where they are pixels; read-only, on disk
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
    n_jobs: int | None = None,
) -> Features:
    """Return the stored vectors of a data set, or compute them from `folder` and store them.

    Where vectors are stored, that directory is not read, unless `anew`; only a folder that is given
    by its path is read again, and its vectors computed again if a picture in it changed. Stopped at
    any time, the same call goes on. With `n_jobs`, joblib's workers embed, to the same bits.
    """
    name = backbone if isinstance(backbone, str) else backbone.name
    whole_name = map_files(name, os.path.abspath)
    file_name = f"{_safe(data, data not in NAMES)}-{_safe(whole_name, False)}"
    place = (home or cache_folder()) / "study" / file_name
    stored = None if anew else _read_stored(place)
    stale = stored is not None and _is_stale(stored, backbone)
    if stale:
        stored = None
    readable = data == DIGITS or (folder is not None if data in NAMES else Path(data).is_dir())
    if stored is not None and (data in NAMES or not readable):
        return stored
    if not readable and (stale or data in NAMES):
        problem = "were made with other weights" if stale else "are not here"
        command = f"`cbcl bench vectors {data} --data DIR --backbone {name}`"
        raise DataError(f"the vectors of {data} through {name}", problem, f"{command} makes them")
    data_set = load(data, folder, progress=progress)
    if stored is not None and stored.about["fingerprint"] == fingerprint(data_set.pictures):
        return stored
    _make(place, data_set, load_backbone(backbone), progress, n_jobs)
    made = _read_stored(place)
    if made is None:
        raise DataError(place, "was changed while vectors were written to it", "try again")
    return made


def kept(home: Path | None = None) -> dict[str, list[str]]:
    """Return the data sets whose vectors are stored, each with the backbones."""
    backbones: dict[str, list[str]] = {}
    for place in sorted((home or cache_folder()).glob("study/*")):
        if (stored := _read_stored(place)) is not None:
            backbones.setdefault(stored.about["data"], []).append(stored.about["backbone"])
    return backbones


def _safe(name: str, is_path: bool) -> str:
    """Return a name as part of a file name; of a path, the last part and a digest of the whole.

    >>> _safe("cifar100", False), _safe("timm/vit_base", False)
    ('cifar100', 'vit_base-26f9b34e')
    """
    if not is_path and re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        return name
    # Also where it no longer exists.
    whole = os.path.abspath(name) if is_path else name  # noqa: PTH100
    plain = re.sub(r"[^\w-]+", "-", Path(whole).name).strip("-")[:40]
    return f"{plain}-{sha256(whole.encode()).hexdigest()[:8]}"


def _is_stale(stored: Features, backbone: str | Backbone | Fittable) -> bool:
    """Return whether the backbone is here, with nothing to download or fit, and has changed."""
    if isinstance(backbone, str):
        if not is_available(backbone):
            return False
        backbone = load_backbone(backbone)
    return not isinstance(backbone, Fittable) and backbone.fingerprint != stored.about["weights"]


def _read_stored(place: Path) -> Features | None:
    """Return the vectors in a folder, if they are whole; their digest is not computed again."""
    try:
        about = json.loads((place / "about.json").read_bytes())
        listed = (place / "labels.json").read_bytes()
        vectors = np.load(place / "vectors.npy", mmap_mode="r", allow_pickle=False)
        size = (place / "vectors.npy").stat().st_size
        labels, test = json.loads(listed)["labels"], json.loads(listed)["test"]
        whole = (
            vectors.dtype in (np.float32, np.uint8)
            and vectors.shape == (about["pictures"], about["dimension"])
            and size == vectors.offset + vectors.nbytes
            and sha256(listed).hexdigest() == about["labels"]
            and set(about) >= ABOUT_FIELDS
        )
    except Exception:  # numpy may raise anything about a damaged file
        return None
    if not whole:
        return None
    return Features(vectors, np.array(labels), None if test is None else np.array(test), about)


def _make(
    place: Path,
    data: DataSet,
    backbone: Backbone | Fittable,
    progress: Progress | None,
    n_jobs: int | None,
) -> None:
    begun = perf_counter()
    fitted_to = None
    if isinstance(backbone, Fittable):
        backbone, fitted_to = _fit(backbone, data)
    try:
        place.mkdir(parents=True, exist_ok=True)
        # Written last, so that the three files belong together.
        (place / "about.json").unlink(missing_ok=True)
        dimension, digest = _write_vectors(place, data.pictures, backbone, progress, n_jobs)
        split = [picture.test for picture in data.pictures] if data.own_split else None
        listed = json.dumps(
            {"labels": [picture.label for picture in data.pictures], "test": split}
        ).encode()
        write_atomically(place / "labels.json", listed)
        about = {
            **_describe(data, backbone),
            "fitted_to": fitted_to,
            "dimension": dimension,
            "vectors": digest,
            "labels": sha256(listed).hexdigest(),
            "seconds": round(perf_counter() - begun, 1),  # of the last go, where there were several
        }
        write_atomically(place / "about.json", json.dumps(about, indent=1).encode())
        _remove_cache(place)
    except OSError as error:
        raise DataError(place, f"cannot hold the vectors: {reason(error)}") from error


def _describe(data: DataSet, backbone: Backbone) -> dict[str, Any]:
    return {
        "data": data.name,
        "pictures": len(data.pictures),
        "classes": len({picture.label for picture in data.pictures}),
        "fingerprint": fingerprint(data.pictures),
        "backbone": short_name(backbone.name),
        "weights": backbone.fingerprint,
        "preprocessing": backbone.description,
        "machine": description(),
        "versions": _versions("cbcl", "numpy", "pillow", "onnxruntime"),
    }


def _versions(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):  # ONNX Runtime goes by other names, too
            versions[name] = version(name)
    return versions


def _fit(backbone: Fittable, data: DataSet) -> tuple[Backbone, dict[str, Any]]:
    """Fit a backbone to pictures of no class where there are some, else to training pictures."""
    sources = [(source, f"background {number}") for number, source in enumerate(data.background)]
    which = "background"
    if not sources:
        sources = [(picture.source, picture.name) for picture in data.pictures if not picture.test]
        which = "training pictures" if data.own_split else "all pictures"
    shown = sources[:: -(-len(sources) // MAX_FITTED)]
    try:
        pictures = [load_picture(source, name, backbone.at_least or 1) for source, name in shown]
    except PictureError as error:
        raise DataError(error.subject, error.problem, error.advice) from error
    return backbone.fit(pictures), {"pictures": len(pictures), "of": which}


def _write_vectors(
    place: Path,
    pictures: Sequence[LabelledPicture],
    backbone: Backbone,
    progress: Progress | None,
    n_jobs: int | None,
) -> tuple[int, str]:
    """Write vectors as they come; return how many numbers each has, and the SHA-256 of all."""
    # Left by a process that was killed long ago; a young one may be of another at work.
    for old_part in place.glob(".vectors.npy.*.part"):
        if time() - old_part.stat().st_mtime > DAY_SECONDS:
            old_part.unlink(missing_ok=True)
    part = place / f".vectors.npy.{os.getpid()}.part"
    whole, number = sha256(), _number_type(backbone)
    try:
        with (
            _open_cache(backbone, place) as cache,
            part.open("wb") as file,
            # Where a picture cannot be used, workers end before their engine does.
            closing(_embed(backbone, pictures, cache, progress, n_jobs)) as results,
        ):
            chunks = _stack_batches(backbone, pictures, results)
            first = next(chunks)
            shape = (len(pictures), first.shape[1])
            np.lib.format.write_array_header_1_0(
                file, {"descr": number.str, "fortran_order": False, "shape": shape}
            )
            for chunk in chain([first], chunks):
                numbers = chunk.astype(number, copy=False).tobytes()
                whole.update(numbers)
                file.write(numbers)
            file.flush()
            os.fsync(file.fileno())
        part.replace(place / "vectors.npy")
    finally:
        part.unlink(missing_ok=True)
    return shape[1], whole.hexdigest()


def _number_type(backbone: Backbone) -> np.dtype[Any]:
    """Return the type of numbers on disk: colours are whole, from 0 to 255."""
    return np.dtype("|u1" if isinstance(backbone, PixelVectors) else "<f4")


def _embed(
    backbone: Backbone,
    pictures: Sequence[LabelledPicture],
    cache: VectorCache | None,
    progress: Progress | None,
    n_jobs: int | None,
) -> Generator[Floats | PictureError, None, None]:
    """Yield the vector of each picture, in order, computed here or by joblib's workers."""
    if n_jobs is not None and backbone.at_least is not None:
        sources = [picture.source for picture in pictures]
        for picture in embed_in_order(
            backbone, sources, cache=cache, progress=progress, n_jobs=n_jobs
        ):
            yield picture if isinstance(picture, PictureError) else picture.vector
        return

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(start + done, len(pictures))

    for start in range(0, len(pictures), BATCH_PICTURES):
        batch = pictures[start : start + BATCH_PICTURES]
        inputs = [_backbone_input(picture, backbone) for picture in batch]
        with one_thread() if backbone.threads else nullcontext():  # a picture a thread is enough
            yield from extract(backbone, inputs, cache=cache, progress=report)


def _stack_batches(
    backbone: Backbone,
    pictures: Sequence[LabelledPicture],
    results: Iterator[Floats | PictureError],
) -> Iterator[Floats]:
    """Yield vectors in batches; the first picture without one is an error."""
    vectors: list[Floats] = []
    for picture, vector in zip(pictures, results, strict=True):
        if isinstance(vector, PictureError):
            problem = "cannot be used, and a study drops no pictures"
            raise DataError(picture.name, problem, first_line(vector)) from vector
        if not np.isfinite(vector).all():
            problem = f"gives {picture.name} a vector of numbers that are not all finite"
            raise DataError(backbone.name, problem)
        vectors.append(vector)
        if len(vectors) == BATCH_PICTURES:
            yield np.stack(vectors)
            vectors = []
    if vectors:
        yield np.stack(vectors)


def _backbone_input(picture: LabelledPicture, backbone: Backbone) -> Any:
    """Return the picture, or the 64 values of a digit."""
    if backbone.at_least is not None:
        return picture.source
    if isinstance(picture.source, bytes) and picture.source.startswith(DIGITS_HEADER):
        return np.frombuffer(picture.source, np.uint8, offset=len(DIGITS_HEADER)).astype(np.float32)
    problem = f"takes no pictures, such as {picture.name}"
    raise DataError(backbone.name, problem, "give a backbone that does")


@contextmanager
def _open_cache(backbone: Backbone, place: Path) -> Iterator[VectorCache | None]:
    """Open a cache for this data set alone: half a gigabyte would fill the user's common one."""
    if backbone.at_least is None or isinstance(backbone, PixelVectors):  # as fast without it
        yield None
        return
    with closing(VectorCache(backbone.fingerprint, place / CACHE_NAME)) as cache:
        yield cache


def _remove_cache(place: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        (place / f"{CACHE_NAME}{ending}").unlink(missing_ok=True)
