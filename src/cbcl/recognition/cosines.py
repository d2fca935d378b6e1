"""Numbers of a backbone: looked up, given to heads, and measured on labelled photos.

t classes, n photos, d features. docs/backbones.md says what the numbers mean.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from functools import cache
from math import inf, sqrt
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from PIL import Image

from cbcl.errors import BackboneError, PictureError, WeightsError, reason
from cbcl.files import write_atomically
from cbcl.heads.base import Context
from cbcl.memory.rows import DAMAGE, MemoryInfo
from cbcl.memory.state import MemoryState
from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant.directions import MIN_EMBEDDING, as_directions
from cbcl.method.discriminant.measured import Measured, pack_measured, unpack_measured
from cbcl.method.discriminant.open_set import WIDE, Cosines, units
from cbcl.method.discriminant.statistics import EXACT
from cbcl.vision.backbones.base import Backbone, subject_of
from cbcl.vision.backbones.catalogue import is_catalogued
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import load
from cbcl.vision.extraction import Progress, extract
from cbcl.vision.finding import find_labelled

TABLE = Path(__file__).with_name("cosines.json")  # written by `cbcl backbones measure --output`
LEARNED = 10  # photos of a class, and as many that are asked about
MIN_PHOTOS = 12  # of a class
MIN_CLASSES, MAX_CLASSES = 20, 200  # of a folder
FOLDERS_ADVICE = (
    f"give two different folders, each with {MIN_CLASSES} folders of {MIN_PHOTOS} photos of a"
    " thing, or more"
)
SHIFT = 1 / 40  # of the shorter side, by which a near-copy is moved at most
FRAME_QUALITY = 92  # of its JPEG
COPIES_BELOW = 0.05  # share of near-copies that are less alike
PAIRS_ABOVE = 0.01  # share of photos of a thing that are more alike
ALIKE_SHARE = 0.57  # of the way from photos of anything to photos of a thing
INITIAL_LIMIT = 0.8  # relative distance: see `initial_limit_of`


class Measurement(NamedTuple):
    """Numbers of a backbone, as `pack_measured` gives them, and what they come from."""

    numbers: dict[str, Any]
    photos: int
    classes: int
    problems: list[PictureError]  # photos that were left out


def context_of(state: MemoryState) -> Context:
    """Return the settings of a memory, and what is known of its backbone."""
    about = state.about
    return Context(
        state.settings,
        about.private,
        not state.rows,
        measured_of(about),
        initial_limit_of(about.backbone),
    )


def initial_limit_of(backbone: str) -> float:
    """Return the distance that is too far while too little was learned to tell.

    It fits the networks known by name: on the photos of three data sets it keeps 80 to 97 of 100
    photos of the one class that is known from one to three photos; docs/method.md has what it
    refuses. For any other backbone nothing is known, and there is no limit.
    """
    return INITIAL_LIMIT if is_catalogued(backbone) else inf


def measured_of(about: MemoryInfo) -> Measured:
    """Return the numbers of a memory's backbone: its own, else those that come with cbcl.

    Without either, `cosines` is None, and near-copies are known of the networks of the list only.
    """
    if about.measured is not None:
        return unpack_measured(about.measured, about.dimension)
    row = _table().get(about.backbone)
    if row is not None and row["fingerprint"] == about.fingerprint:
        return unpack_measured(row["numbers"], about.dimension)
    if not is_catalogued(about.backbone):
        return Measured(None, EXACT, EXACT)
    if {*"@+"} & {*about.backbone}:
        return Measured(None, 0.945, 0.6)
    return Measured(None, 0.92, 0.55)


def numbers_of(backbone: Backbone, dimension: int) -> dict[str, Any] | None:
    """Return the numbers that a new memory keeps: those in the description of a user's file."""
    row = backbone.measured if isinstance(backbone, Network) else None
    if row is None or row.get("fingerprint") != backbone.fingerprint:
        return None
    numbers: dict[str, Any] = row.get("numbers", {})
    try:
        unpack_measured(numbers, dimension)
    except DAMAGE as error:
        problem = 'has a description in which "measured" makes no sense'
        advice = "leave it out, or let `cbcl backbones measure` write it again"
        raise BackboneError(subject_of(backbone.name), problem, advice) from error
    return numbers


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text("utf-8"))
    return table


def measure(
    backbone: Backbone, folders: Sequence[Path], progress: Progress | None = None, *, seed: int = 0
) -> Measurement:
    """Measure a backbone on two folders of other kinds of things, a folder of photos for each."""
    if len(folders) != 2 or folders[0].resolve() == folders[1].resolve():
        raise PictureError("the folders", "are the same", FOLDERS_ADVICE)
    if backbone.at_least is None:
        raise WeightsError(subject_of(backbone.name), "takes no pictures")
    rng = np.random.default_rng(seed)
    chosen = [_choose(folder, rng) for folder in folders]
    paths = [path for classes in chosen for some in classes for path in some]
    total = len(paths) + 2 * sum(map(len, chosen))

    def embed(sources: Sequence[Any], before: int) -> list[Float32s | PictureError]:
        report = progress and (lambda done, _: progress(before + done, total))
        return extract(backbone, sources, progress=report)

    found = dict(zip(paths, embed(paths, 0), strict=True))
    problems = [one for one in found.values() if isinstance(one, PictureError)]
    vectors = {path: one for path, one in found.items() if not isinstance(one, PictureError)}
    if vectors and len(next(iter(vectors.values()))) < MIN_EMBEDDING:
        problem = f"gives fewer than {MIN_EMBEDDING} numbers, which are taken as measurements"
        raise WeightsError(subject_of(backbone.name), problem)
    kept = [
        _check_classes(folder, [[path for path in some if path in vectors] for some in classes])
        for folder, classes in zip(folders, chosen, strict=True)
    ]
    used = [some for classes in kept for some in classes]
    twice = [some[0] for some in used for _ in range(2)]
    frames = [_frame(load(path, path, backbone.at_least), rng) for path in twice]
    copies = embed(frames, len(paths))
    directions = [
        [as_directions(np.stack([vectors[path] for path in some])) for some in classes]
        for classes in kept
    ]
    numbers = _compute(directions, as_directions(np.stack(cast("list[Float32s]", copies))))
    return Measurement(numbers, sum(map(len, used)), len(used), problems)


def read_rows(path: Path) -> dict[str, Any]:
    """Read a JSON file that rows are written into; it may not be there yet."""
    try:
        rows = json.loads(path.read_bytes()) if path.exists() else {}
    except OSError as error:
        raise WeightsError(path, f"cannot be read: {reason(error)}") from error
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, dict):
        raise WeightsError(path, "is not a JSON object", "give another file")
    return rows


def write_row(path: Path, key: str, row: dict[str, Any]) -> None:
    """Write a row into a JSON file, whose other rows stay."""
    content = json.dumps({**read_rows(path), key: row}, indent=1)
    try:
        write_atomically(path, content.encode() + b"\n")
    except OSError as error:
        raise WeightsError(path, f"cannot be written: {reason(error)}") from error


def _choose(folder: Path, rng: np.random.Generator) -> list[list[Path]]:
    """Return photos of each class of a folder, in random order."""
    if not folder.is_dir():
        raise PictureError(folder, "is not a folder", FOLDERS_ADVICE)
    labelled: dict[str, list[Path]] = {}
    for label, path in find_labelled([folder]):
        labelled.setdefault(label, []).append(path)
    classes = _check_classes(folder, [*labelled.values()])
    some = np.sort(rng.permutation(len(classes))[:MAX_CLASSES])
    return [[classes[i][j] for j in rng.permutation(len(classes[i]))[: 2 * LEARNED]] for i in some]


def _check_classes(folder: Path, classes: Sequence[list[Path]]) -> list[list[Path]]:
    """Return those of enough photos, if they are enough."""
    large = [paths for paths in classes if len(paths) >= MIN_PHOTOS]
    if len(large) < MIN_CLASSES:
        problem = f"has {len(large)} folders of at least {MIN_PHOTOS} photos that can be used"
        raise PictureError(folder, problem, FOLDERS_ADVICE)
    return large


def _frame(image: Image.Image, rng: np.random.Generator) -> bytes:
    """Return a photo as the next frame of a camera: moved, a little lighter or darker, noisy."""
    shift = round(SHIFT * min(image.size))
    width, height = (side - 2 * shift for side in image.size)
    left, top = rng.integers(0, 2 * shift, size=2, endpoint=True).tolist()
    part = np.asarray(image.crop((left, top, left + width, top + height)))
    pixels = part * rng.uniform(0.97, 1.03) + rng.normal(scale=2.0, size=part.shape)
    file = io.BytesIO()
    frame = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    frame.save(file, "JPEG", quality=FRAME_QUALITY)
    return file.getvalue()


def _compute(folders: Sequence[Sequence[Float32s]], copies: Float32s) -> dict[str, Any]:
    """Return the numbers by the directions of two folders' classes, and of pairs of near-copies."""
    means = [np.mean([some.mean(axis=0) for some in folder], axis=0) for folder in folders]
    centred = WIDE._replace(centre=np.mean(means, axis=0))
    found, pairs = [], []
    for folder in folders:
        near = [units(some, centred) for some in folder]
        learned = np.stack([some[:LEARNED] for some in near])  # (t, 10, d)
        same, deviation = _pairs(learned).mean(), _pairs(learned).std()
        own, others = _scores(learned, [some[LEARNED:] for some in near], same)
        variance = max(own.var() - deviation**2 / LEARNED, 0.0) / (1.0 - 1.0 / LEARNED)
        found.append((same, deviation, sqrt(variance), others.mean()))
        pairs.append(_pairs(np.stack([some[:LEARNED] for some in folder])))
    first, second = (units(np.concatenate(folder), centred) for folder in folders)
    apart = (first @ second.T).std(dtype=np.float64)
    same, deviation, class_deviation, other = np.mean(found, axis=0)
    measured = Cosines(same, deviation, class_deviation, other, apart, centred.centre)
    lowest = np.quantile(np.einsum("nd,nd->n", copies[::2], copies[1::2]), COPIES_BELOW)
    highest = max(np.quantile(some, 1.0 - PAIRS_ABOVE) for some in pairs)
    anything = float(means[0] @ means[1])
    alike = anything + ALIKE_SHARE * (np.mean([some.mean() for some in pairs]) - anything)
    return pack_measured(measured, min(max((lowest + highest) / 2.0, highest), EXACT), alike)


def _pairs(directions: Float32s) -> Float64s:
    """Return the cosines of all pairs of directions of a class: (t, n, d) to (t, pairs)."""
    rows, columns = np.triu_indices(directions.shape[1], 1)
    products = directions @ directions.transpose(0, 2, 1)
    cosines: Float64s = products[:, rows, columns].astype(np.float64)
    return cosines


def _scores(learned: Float32s, asked: Sequence[Float32s], same: float) -> tuple[Float64s, Float64s]:
    """Return the scores of photos for their own class, and for the other classes."""
    sums = learned.sum(axis=1)
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    expected = sqrt(LEARNED / (1.0 + (LEARNED - 1.0) * same))
    scores = (np.concatenate(asked) @ sums.T).astype(np.float64) / expected
    owners = np.repeat(np.arange(len(asked)), [len(some) for some in asked])
    own = owners[:, np.newaxis] == np.arange(len(asked))
    return scores[own], scores[~own]
