"""Search index of a memory that learns by the vote: files in the user's cache, made on demand.

m centroids, t classes. They hold the centroids of all classes in one array, a graph of them, and of
each class the identity of its row: a class that is not as it was is known by that. They are worth
their room from some hundred thousand centroids on (docs/scale.md). What is in them is in the
memory, so they can be deleted at any time; of a private memory there are none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import MemoryFileError, reason
from cbcl.files import Identity, identity, part_of
from cbcl.folders import cache_folder
from cbcl.memory.rows import StoredClass
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.confidence import Spread
from cbcl.method.graph_index import (
    EXPANSIONS,
    GOOD_RECALL,
    RECALLED,
    Graph,
    GraphIndex,
    StoredClasses,
    measure_recall,
    search_exactly,
)
from cbcl.method.search import (
    MAX_COMPILED_VOTERS,
    Index,
    distances_to_others,
    half_relative,
    sample_centroids,
)
from cbcl.recognition.examples import of_vote

VERSION = 1  # of the files
CENTROIDS, GRAPH = "centroids.f32", "centroids.usearch"
FLOAT32 = np.dtype("<f4")
MAX_STALE = 0.5  # share of the centroids that may be of no class any more
RECALL_VECTORS = 200  # to measure the recall by
ABANDONED_SECONDS = 24 * 3600.0  # for which nothing was written

Progress = Callable[[int, int], None]


class IndexResult(NamedTuple):
    """Outcome of making a search index."""

    n_centroids: int
    n_bytes: int
    recall: float  # share of the ten nearest centroids that it finds


@dataclass(frozen=True, eq=False)
class IndexFiles:
    """The files of a search index, open."""

    about: Identity
    graph: Graph
    identities: NDArray[np.uint8]  # (t, 32)
    n_centroids: Int64s  # (t,)
    spreads: NDArray[np.float64]  # (t, 3)
    counts: Int64s  # (m,)
    half_class_distance: float
    recall: float

    @cached_property
    def numbers(self) -> dict[bytes, int]:
        """The class of each identity."""
        return {row.tobytes(): number for number, row in enumerate(self.identities)}

    @cached_property
    def owners(self) -> Int64s:  # (m,), the class of each centroid
        return np.repeat(np.arange(len(self.n_centroids)), self.n_centroids)

    @cached_property
    def places(self) -> Int64s:  # (m,), the number of each centroid in its class
        starts = np.cumsum(self.n_centroids) - self.n_centroids
        places: Int64s = np.arange(len(self.counts)) - starts[self.owners]
        return places

    @cached_property
    def sizes(self) -> Int64s:  # (t,), N_y
        starts = np.cumsum(self.n_centroids) - self.n_centroids
        return np.add.reduceat(self.counts, starts)


@dataclass(frozen=True, eq=False)
class IndexedClasses:
    """All classes of now, as the vote needs them: their centroids, and how far photos are off."""

    index: GraphIndex
    spread: Spread


def folder_of(memory: Path) -> Path:
    """Return the folder of the search index of a memory."""
    return cache_folder() / "indexes" / sha256(str(memory.resolve()).encode()).hexdigest()[:16]


def open_files(memory: Path, before: IndexFiles | None) -> IndexFiles | None:
    """Map the files of a memory's index, or return those open before; None: there are none."""
    folder = folder_of(memory)
    about = identity(folder / "about.json")
    if about is None or (before is not None and before.about == about):
        return before if about is not None else None
    try:
        return _read(folder, about)
    except (OSError, ValueError, LookupError, RuntimeError, TypeError, MemoryFileError):
        return None  # it was deleted meanwhile, or usearch is not installed: all is in the memory


def _read(folder: Path, about: Identity) -> IndexFiles:
    values = json.loads((folder / "about.json").read_bytes())
    if values["version"] != VERSION:
        raise ValueError("the index is of another version")
    with np.load(folder / "classes.npz", allow_pickle=False) as arrays:
        files = {name: arrays[name] for name in ("identities", "n_centroids", "spreads", "counts")}
    centroids = _map(folder, len(files["counts"]), values["dimension"])
    if files["n_centroids"].sum() != len(centroids):
        raise ValueError("the files are not of one index")
    graph = Graph.open(centroids, folder / GRAPH, values["scale"], values["expansion"])
    return IndexFiles(
        about,
        graph,
        **files,
        half_class_distance=values["half_class_distance"],
        recall=values["recall"],
    )


def classes_of(memory: Memory, view: MemoryState, files: IndexFiles) -> IndexedClasses | None:
    """Return the classes of now, searched by the files as far as these have them.

    None: too little of what they have is there any more.
    """
    identities = memory.identities(view)
    numbers = np.full(len(files.n_centroids), -1, dtype=np.int64)
    stored = np.full(len(view.classes), -1, dtype=np.int64)
    for number, label in enumerate(view.classes):
        row = files.numbers.get(identities[label], -1)
        if row >= 0:
            numbers[row], stored[number] = number, row
    stale = files.n_centroids[numbers < 0].sum()
    if stale > MAX_STALE * len(files.counts):
        return None
    new_numbers = np.flatnonzero(stored < 0)
    labels = [*view.classes]
    new = of_vote(memory.load(view, [labels[number] for number in new_numbers]))
    sizes = np.where(stored >= 0, files.sizes[stored], 0)
    sizes[new_numbers] = [known.concepts.size for known in new.values()]
    index = GraphIndex(
        files.graph,
        StoredClasses(numbers[files.owners], files.places, files.counts),
        Index([known.concepts for known in new.values()]) if new else None,
        new_numbers,
        sizes,
        files.half_class_distance,
        files.recall,
    )
    n, total, squares = files.spreads[numbers >= 0].sum(axis=0).tolist()
    spread = sum((known.spread for known in new.values()), Spread(int(n), total, squares))
    return IndexedClasses(index, spread)


def build(memory: Memory, progress: Progress | None = None) -> IndexResult:
    """Make the search index of a memory, in place of the one before."""
    view = memory.view()
    if view.settings.head != "vote":
        problem = "learns by the discriminant, which has no centroids to search"
        raise MemoryFileError(memory.path, problem, "there is nothing to do")
    if view.about.private:
        problem = "is private, so nothing of it is kept elsewhere"
        raise MemoryFileError(memory.path, problem, "it is searched exactly")
    if not view.classes:
        raise MemoryFileError(memory.path, "knows nothing", "learn something first")
    folder = folder_of(memory.path)
    part = part_of(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder)
        part.mkdir()
        n_centroids, recall = _write(memory, view, part, progress)
        n_bytes = sum(file.stat().st_size for file in part.iterdir())
        remove(memory.path)
        part.rename(folder)
    except OSError as error:
        raise MemoryFileError(folder, f"cannot be written: {reason(error)}") from error
    finally:
        rmtree(part, ignore_errors=True)
    return IndexResult(n_centroids, n_bytes, recall)


def _remove_abandoned(folder: Path) -> None:
    """Delete what processes left that were killed while they made or deleted the same index."""
    for part in folder.parent.glob(f".{folder.name}.*.part"):
        if time() - part.stat().st_mtime > ABANDONED_SECONDS:
            rmtree(part, ignore_errors=True)


def remove(memory: Path) -> bool:
    """Delete the search index of a memory; return whether there was one."""
    folder = folder_of(memory)
    old = part_of(folder.with_name(folder.name + ".old"))
    try:
        folder.rename(old)
    except FileNotFoundError:
        return False
    rmtree(old)
    return True


def _write(
    memory: Memory, view: MemoryState, folder: Path, progress: Progress | None
) -> tuple[int, float]:
    """Write the files of an index; return the number of its centroids, and its recall."""
    identities = memory.identities(view)
    counts, spreads = [], []
    with (folder / CENTROIDS).open("wb") as file:
        for _, stored in memory.read_each(view):
            assert isinstance(stored, StoredClass)  # as the head says
            file.write(stored.concepts.centroids.astype(FLOAT32, copy=False).tobytes())
            counts.append(stored.concepts.counts)
            spreads.append((stored.spread.n, stored.spread.total, stored.spread.squares))
    n_centroids = np.array([len(own) for own in counts])
    centroids = _map(folder, int(n_centroids.sum()), view.about.dimension)
    graph = Graph.build(centroids, folder / GRAPH, progress)
    owners = np.repeat(np.arange(len(counts)), n_centroids)
    graph, recall, half = _measure(graph, owners)
    np.savez(
        folder / "classes.npz",
        identities=np.frombuffer(b"".join(identities.values()), dtype=np.uint8).reshape(-1, 32),
        n_centroids=n_centroids,
        spreads=np.array(spreads),
        counts=np.concatenate(counts),
    )
    about: dict[str, Any] = {
        "version": VERSION,
        "dimension": view.about.dimension,
        "scale": graph.scale,
        "expansion": graph.expansion,
        "recall": recall,
        "half_class_distance": half,
    }
    (folder / "about.json").write_text(json.dumps(about))
    return len(centroids), recall


def _map(folder: Path, m: int, d: int) -> Float32s:
    """Map the file of the centroids: (m, d)."""
    path = folder / CENTROIDS
    if path.stat().st_size != m * d * FLOAT32.itemsize:
        raise ValueError("the files are not of one index")
    return np.memmap(path, FLOAT32, "r", shape=(m, d))


def _measure(graph: Graph, owners: Int64s) -> tuple[Graph, float, float]:
    """Return a graph with the least work that finds enough, its recall, half a class distance.

    It is asked about points between two centroids of a class, as pictures of it are.
    """
    m, centroids = len(owners), graph.centroids
    sample = sample_centroids(m)
    chosen = np.random.default_rng(0).integers(0, m, RECALL_VECTORS)
    other = np.where(np.roll(owners, -1)[chosen] == owners[chosen], (chosen + 1) % m, chosen)
    between = (centroids[chosen] + centroids[other]) / np.float32(2.0)
    vectors = np.concatenate([between, centroids[sample]])
    exact = search_exactly(vectors, centroids, MAX_COMPILED_VOTERS)
    near = owners[exact.indices[RECALL_VECTORS:]]
    distances = distances_to_others(owners[sample], near, exact.distances[RECALL_VECTORS:])
    half = half_relative(distances, centroids[sample])
    recall = 0.0
    for expansion in EXPANSIONS:
        graph = Graph(centroids, graph.index, graph.scale, expansion)
        recall = measure_recall(graph, between, exact.indices[:RECALL_VECTORS, :RECALLED])
        if recall >= GOOD_RECALL:
            break
    return graph, recall, half
