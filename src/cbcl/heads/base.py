"""Heads: how classes are learned, changed, kept in bytes and answered; and which heads there are.

A head works on values: it reads no file and writes none. What it keeps of a class is of a type of
its own, K. n pictures, d features, q vectors, t classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint
from math import inf
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cbcl.errors import CBCLError, MemoryFileError, PictureError, PluginError, Subject
from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.discriminant.forecast import UnknownReport
from cbcl.method.discriminant.measured import Measured
from cbcl.method.discriminant.open_set import DEFAULT_STRANGERS
from cbcl.method.model import Verdict
from cbcl.plugins import load_plugin, plugin_names
from cbcl.vision.extraction import EmbeddedPicture

if TYPE_CHECKING:
    from cbcl.heads.answer_nodes import AnswerGraph, Outputs

K = TypeVar("K")

NEGATIVES = ""  # label of the pictures that were taught as none of the labels
MAX_COUNT = 1 << 31  # of pictures, voters or centroids
FIRST = 100  # examples of a class that every head keeps, whatever they look like
UINT64 = np.dtype("<u8")
NO_VECTOR: Float32s = np.empty(0, dtype=np.float32)  # of an example whose vector the class keeps

Sketches: TypeAlias = NDArray[np.uint64]
Exchanged: TypeAlias = tuple[dict[str, object], dict[str, NDArray[Any]]]  # JSON, and tensors
Ability: TypeAlias = Literal[
    "copies",  # knows the pictures that it was taught, and takes them from other labels
    "negatives",  # can be taught pictures as none of the labels
    "suspects",  # says which examples may be why an answer was wrong
    "strangers",  # can be told how often something unknown is to be expected
    "tune",  # has a radius and voters to choose by cross-validation
    "limit",  # can be limited to a number of centroids
    "centroids",  # keeps several centroids a class, and examples by centroid
    "upgrade",  # keeps vectors of examples, from which another head can learn
]

MISSING: dict[Ability, str] = {  # words for a head without the ability
    "negatives": 'cannot learn "none of these"',
    "suspects": "cannot say which example decided",
    "strangers": "has no strangers setting",
    "tune": "has no radius and no number of voters",
}


class Settings(NamedTuple):
    """Settings of a memory, for the next pictures to be learned and for answers.

    They are the columns of a step in the file; a head reads those that are its own.
    """

    radius: float = inf
    n_voters: int = 1
    max_centroids: int | None = None
    head: str = "vote"  # its name
    strangers: str = DEFAULT_STRANGERS  # how often something unknown is to be expected


class StoredExample(NamedTuple):
    """An example of a class: a thumbnail, for people, and perhaps the vector of the picture."""

    place: int  # the centroid nearest to it, or how many views of its class are older
    jpeg: bytes
    vector: Float32s  # (d,), or (0,) where the class itself keeps it
    rank: int = 0  # among those of its place: 0 is the nearest
    number: int = 0  # permanent, even when its class is rewritten; 0: not written yet

    @property
    def has_thumbnail(self) -> bool:
        return True


Picture: TypeAlias = EmbeddedPicture | StoredExample


class ExamplePlaces(NamedTuple):
    """Places in a class that its examples can have."""

    size: int = MAX_COUNT  # centroids, or views
    need_vectors: bool = False


class ClassSummary(NamedTuple):
    """A class in numbers."""

    dimension: int
    pictures: int  # learned, copies counted once
    places: ExamplePlaces
    most_kept: int  # examples, ever
    sketches: Sketches | None = None  # of the pictures that it was taught, the latest


class Blobs(NamedTuple):
    """A class as bytes: the columns of its row in the file, which each head uses as it likes.

    None and empty bytes are different values. `sketches` are unsigned integers of 64 bits.
    """

    centroids: bytes = b""
    counts: bytes = b""
    spread: bytes = b""
    sketches: bytes | None = None
    statistics: bytes | None = None


class ClassRecord(Generic[K]):
    """A class, and the examples that are kept of it, which are read when they are asked for."""

    def __init__(
        self,
        known: K,
        read: Callable[[], Sequence[StoredExample]] = tuple,
        read_places: Callable[[], Sequence[tuple[int, int]]] = tuple,
    ) -> None:
        self.known = known
        self._read = read
        self._read_places = read_places

    @classmethod
    def of(cls, known: K, examples: Sequence[StoredExample]) -> ClassRecord[K]:
        """Return a class with examples that are at hand."""
        return cls(known, lambda: examples)

    @cached_property
    def examples(self) -> list[StoredExample]:
        """The examples, in the order learned."""
        return [*self._read()]

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Number and place of each example, without its picture."""
        return [*self._read_places()]


Records: TypeAlias = Mapping[str, ClassRecord[K]]


class Context(NamedTuple):
    """Facts about a memory, beside its classes, that a head works by."""

    settings: Settings
    private: bool  # no examples are kept
    is_fresh: bool  # no label is known, and no settings were tuned for the first one
    measured: Measured  # numbers of the backbone
    initial_limit: float  # of what is known, by the vote, while too little was learned to tell


class Sight:
    """Vectors as a head sees them; each form is computed once."""

    def __init__(self, matrix: Float32s) -> None:
        self.matrix = matrix  # (q, d)

    @property
    def points(self) -> Float32s:
        """The vectors between which distances are taken: (q, d)."""
        return self.matrix

    @property
    def sketches(self) -> Sketches | None:
        """64 bits of each, by which a picture is found again; None: the head finds none."""
        return None


class PictureBatch(NamedTuple):
    """Pictures to be learned."""

    sight: Sight
    targets: NDArray[Any]  # (n,), their labels
    pictures: Sequence[Picture]
    taught: Mapping[int, str]  # label of each sketch among these that a class has
    options: Mapping[str, Any] = {}  # of learning, those of the head


class Changes(NamedTuple, Generic[K]):
    """Classes that change, and the settings from now on; None: nothing is left of a class."""

    records: dict[str, ClassRecord[K] | None]
    settings: Settings
    copies: Mapping[str, int] = {}  # pictures that were known already, or nearly so, by label
    moved: Mapping[str, int] = {}  # pictures that were taken from other labels, by these


class SuspectView(NamedTuple):
    """An example that speaks for an answer, and the verdict had it not been learned."""

    label: str
    place: int
    verdict: Verdict | None  # None: nothing else is known


class VectorClassifier(Protocol):
    """A scikit-learn classifier of vectors: of which class it is, each head says."""

    @property
    def classes_(self) -> NDArray[Any]: ...

    def fit(self, X: ArrayLike, y: ArrayLike) -> Any: ...

    def predict(self, X: ArrayLike) -> NDArray[Any]: ...

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]: ...


class HeadModel(ABC):
    """All classes of a memory, ready to answer."""

    labels: list[str]
    usual_distance: float  # of a picture to the centroids of its label, by its length

    @cached_property
    @abstractmethod
    def concepts(self) -> dict[str, Concepts]:
        """The centroids of each label, at least one."""

    @abstractmethod
    def answer(self, sight: Sight) -> list[Verdict]:
        """Return the verdict about each vector."""

    @abstractmethod
    def self_test(self, examples: Mapping[str, ClassRecord[Any]]) -> SelfTestResult:
        """Answer about each example that is kept by what the others teach."""

    @abstractmethod
    def estimator(self) -> VectorClassifier:
        """Return a scikit-learn classifier of vectors that gives the same labels."""

    @abstractmethod
    def vector_of(self, label: str, example: StoredExample) -> Float32s | None:
        """Return the direction of an example; None: it is part of sums alone."""

    def add_answer(self, graph: AnswerGraph, vector: str) -> Outputs:  # noqa: ARG002
        """Add the answer to an ONNX graph, and return its outputs."""
        advice = "export to FILE.safetensors"
        raise MemoryFileError("this memory", "has a head without an ONNX graph", advice)

    def metadata(self) -> dict[str, str]:
        """Return what an ONNX file says of the head."""
        return {}

    onnx_tolerance: ClassVar[float] = 1e-9  # relative, of confidence and strangeness in a graph

    def report_unknown(self) -> UnknownReport | None:
        """Describe what decides "unknown"; None: there is nothing to tell."""
        return None

    def suspects(
        self,
        sight: Sight,  # noqa: ARG002
        places: Callable[[str], Container[int]],  # noqa: ARG002
    ) -> list[SuspectView]:
        """Return the examples that speak most for the answer about one vector.

        `places` has those of a label that have an example.
        """
        return []


class Head(ABC, Generic[K]):
    """How classes are learned, changed, kept in bytes and answered."""

    name: ClassVar[str]
    kind: type[K]  # of what is kept of a class
    abilities: ClassVar[frozenset[Ability]] = frozenset()
    parameters: ClassVar[frozenset[str]] = frozenset()  # options of learning that it has
    exchange_format: ClassVar[int] = 2
    learns_together: ClassVar[bool] = False  # what one label is learned as depends on all given

    # A class as a value.

    @abstractmethod
    def summarize(self, known: K) -> ClassSummary:
        """Return a class in numbers."""

    @abstractmethod
    def pack(self, known: K) -> Blobs:
        """Return a class as bytes; ValueError: they could not be read again."""

    @abstractmethod
    def unpack(self, blobs: Blobs, dimension: int) -> K:
        """Read what `pack` returned; ValueError: it is not that."""

    @abstractmethod
    def to_tensors(self, classes: Sequence[K], dimension: int) -> Exchanged:
        """Return what classes are in JSON and in arrays, for the exchange format."""

    @abstractmethod
    def from_tensors(
        self, described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], dimension: int
    ) -> list[K]:
        """Read what `to_tensors` returned; an error of DAMAGE: it is not that."""

    # Changes: from classes that were read to classes to be written.

    def see(self, matrix: Float32s) -> Sight:
        """Return vectors as this head sees them."""
        return Sight(matrix)

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Raise ValueError for options of learning that make no sense."""

    def tune(self, classes: Sequence[Float32s], settings: Settings) -> Settings:  # noqa: ARG002
        """Return the settings that suit the vectors of these classes best."""
        return settings

    def needs_all(self, context: Context, n_pictures: int = 0, n_labels: int = 1) -> bool:  # noqa: ARG002
        """Tell whether learning so many pictures depends on classes beside their own."""
        return False

    @abstractmethod
    def learn(self, lesson: PictureBatch, records: Records[K], context: Context) -> Changes[K]:
        """Learn pictures with the classes that they have, or as new ones."""

    @abstractmethod
    def move(
        self,
        examples: Mapping[str, Sequence[StoredExample]],
        target: str | None,
        records: Records[K],
        context: Context,
        see: Callable[[list[bytes]], Float32s],
    ) -> Changes[K]:
        """Take examples out of their labels, and learn them with the target, unless it is None.

        `see` embeds thumbnails, for those whose vectors are not kept.
        """

    @abstractmethod
    def merge(
        self, these: ClassRecord[K], those: ClassRecord[K], context: Context
    ) -> ClassRecord[K]:
        """Make one class of two."""

    def adopt(
        self, ours: Records[K], theirs: Records[K], context: Context
    ) -> dict[str, ClassRecord[K]]:
        """Return the classes that change when those of another memory are added."""
        return {
            label: self.merge(ours[label], new, context) if label in ours else new
            for label, new in theirs.items()
        }

    # Answers.

    @abstractmethod
    def model(self, classes: Mapping[str, K], negatives: K | None, context: Context) -> HeadModel:
        """Return all classes, ready to answer."""


DEFAULT_HEAD = "discriminant"
GROUP = "cbcl.heads"  # entry points of other packages: each a `Head`, by its name
BUILT_IN = {
    "vote": EntryPoint("vote", "cbcl.heads.centroids.head:VOTE", GROUP),
    "discriminant": EntryPoint("discriminant", "cbcl.heads.discriminant.head:DISCRIMINANT", GROUP),
}
_loaded: dict[str, Head[Any]] = {}


def find_head(name: str) -> Head[Any]:
    """Return a head by its name; ValueError: there is none; PluginError: it cannot be loaded."""
    if name not in _loaded:
        own = BUILT_IN.get(name)
        head = load_plugin(GROUP, name, "head", Head) if own is None else own.load()
        if head is None:
            raise ValueError(f"there is no head {name!r}")
        if head.name != name:
            raise PluginError(f"head {name!r}", f"calls itself {head.name!r}")
        _loaded[name] = head
    return _loaded[name]


def register(head: Head[Any]) -> None:
    """Make a head known by its name, as an entry point of the group `cbcl.heads` does."""
    _loaded[head.name] = head


def head_names() -> list[str]:
    """Return the names of all heads, those that come with cbcl first."""
    return [*dict.fromkeys([*BUILT_IN, *_loaded, *plugin_names(GROUP)])]


def head_with(ability: Ability) -> Head[Any]:
    """Return the first head with an ability."""
    return next(head for head in map(find_head, head_names()) if ability in head.abilities)


def head_taking(options: Collection[str]) -> Head[Any]:
    """Return the first head that has these options of learning, the default one if it does."""
    default = find_head(DEFAULT_HEAD)
    if {*options} <= default.parameters:
        return default
    return next(head for head in map(find_head, head_names()) if {*options} <= head.parameters)


def check_able(
    ability: Ability,
    head: Head[Any],
    memory: Subject = "this memory",
    error: type[CBCLError] = MemoryFileError,
) -> None:
    """Raise an error, unless the head of a memory has an ability."""
    if ability in head.abilities:
        return
    helps = "upgrade" in head.abilities and ability in find_head(DEFAULT_HEAD).abilities
    advice = "`cbcl upgrade` may help" if helps else ""
    raise error(memory, f"learns by the {head.name}, which {MISSING[ability]}", advice)


def pack_sketches(sketches: Sketches) -> bytes:
    return sketches.astype(UINT64, copy=False).tobytes()


def unpack_sketches(blob: bytes) -> Sketches:
    """Read what `pack_sketches` returned; ValueError: it is not that."""
    return read_only(np.frombuffer(blob, UINT64).astype(np.uint64))


def as_example(
    picture: Picture, place: int, vector: Float32s = NO_VECTOR, rank: int = 0
) -> StoredExample | None:
    """Return a picture as an example; None: its file is gone by now."""
    if isinstance(picture, StoredExample):
        return picture._replace(place=place, rank=rank)
    try:
        return StoredExample(place, picture.thumbnail(), vector, rank)
    except PictureError:  # it is learned, but cannot be shown
        return None
