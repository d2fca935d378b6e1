"""Requests and responses of the API, from which its OpenAPI description is made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from cbcl.recognition.labels import MAX_LETTERS
from cbcl.web.errors import STATUSES

Kind = Annotated[str, Field(json_schema_extra={"enum": [*STATUSES]})]
Revision = Annotated[
    int,
    Field(description="Number of the memory's latest step; 0: there is no memory", examples=[12]),
]
MAX_EXAMPLES = 1000  # to be moved or removed in one request
LABEL_RULES = {  # as `as_label` checks them, whose sentence is a better answer than pydantic's
    "minLength": 1,
    "maxLength": MAX_LETTERS,
    "pattern": r"^(?!\s*[uU][nN][kK][nN][oO][wW][nN]\s*$)(?=.*\S)"
    r"[^\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+$",
}
Label = Annotated[str, Field(examples=["mug"], json_schema_extra={**LABEL_RULES})]
Message = Annotated[str, Field(examples=["IMG_1.jpg is incomplete: copy it again."])]
Digest = Annotated[
    str,
    Field(
        description="SHA-256 of the picture's bytes; may be sent in its place while it is cached",
        examples=["9f86d081884c7d65…"],
    ),
]
ExampleNumber = Annotated[
    int, Field(description="The example's number, which never changes", examples=[17])
]
MAX_DIGESTS = 900  # of a request without files, whose body may have 64 kB
ExampleNumbers = Annotated[
    list[Annotated[int, Field(ge=0, lt=1 << 63)]],
    Field(
        description="Numbers of examples, of any labels",
        examples=[[17, 18]],
        min_length=1,
        max_length=MAX_EXAMPLES,
    ),
]
Gone = Annotated[
    list[str], Field(description="Labels of which nothing is left", examples=[["watch"]])
]
SpelledAlike = Annotated[
    dict[str, str],
    Field(
        description="A new label, and a known one that differs only in case or space",
        examples=[{"Cup": "cup"}],
    ),
]
Share = Annotated[float, Field(ge=0.0, le=1.0, examples=[0.97])]


class ErrorDetail(BaseModel):
    """Kind and message of an error."""

    kind: Kind
    message: Message
    retry_after: int | None = Field(
        default=None, description="Seconds to wait; only with kind busy or rate"
    )
    seen: list[str] | None = Field(
        default=None, description="Digests that are not cached; only with kind seen"
    )
    problem: str | None = Field(
        default=None,
        description="The message without the picture's name, the same for the same problem;"
        " only of a picture among others",
        examples=["is incomplete: copy it again"],
    )


class ErrorResponse(BaseModel):
    """Body of every response with an error status."""

    error: ErrorDetail


class VersionResponse(BaseModel):
    """Version of the software and of the API."""

    cbcl: str = Field(examples=["0.1.0"])
    api: int = Field(examples=[1])


class LookedAt(BaseModel):
    """The part in the middle of a picture that a backbone looks at."""

    square: float = Field(description="Share of the shorter side", examples=[0.875])
    squashed: bool = Field(description="It is a share of both sides instead")


class BackboneStatus(BaseModel):
    """The network that embeds pictures."""

    name: str = Field(examples=["efficientnet-lite0@2views"])
    ready: bool = Field(description="It is loaded and has embedded a picture")
    problem: str | None = Field(
        description="Why it cannot be loaded; null: it can, or was not tried yet"
    )
    looks_at: LookedAt | None = Field(
        default=None, description="null: at all of a picture, or it is not known yet"
    )


class HealthResponse(BaseModel):
    """State of the server."""

    status: Literal["ok"] = "ok"
    memory: str = Field(description="Name of the memory file", examples=["shop.cbcl"])
    revision: Revision
    private: bool = Field(description="The memory keeps no thumbnails")
    backbone: BackboneStatus
    learning: int = Field(description="Changes waiting or being made", examples=[0])


class ChangeSummary(BaseModel):
    """A change of the memory, in words."""

    action: str = Field(examples=["learn"])
    text: str = Field(examples=["learn mug (3)"])


class LabelEntry(BaseModel):
    """A label of the memory."""

    label: Label
    examples: int = Field(description="Different pictures it was learned from", examples=[5])
    concepts: int = Field(description="Centroids made of them; 1 unless by the vote", examples=[1])
    kept: int = Field(description="Examples with a thumbnail", examples=[5])
    shown: list[int] = Field(description="Numbers of a few of them", examples=[[17, 18]])
    changed: int = Field(
        default=0, description="Larger for a label that was changed later", examples=[9]
    )


class NegativesEntry(BaseModel):
    """Pictures that were taught as none of the labels."""

    examples: int = Field(description="Different pictures", examples=[3])
    kept: int = Field(description="Those with a thumbnail", examples=[3])
    shown: list[int] = Field(description="Numbers of a few of them", examples=[[21, 22]])


HowOften = Annotated[
    Literal["often", "sometimes", "rarely"],
    Field(
        description="While few labels are known: of two, three or ten pictures, one shows none of"
        " them; of fewer, the more are known",
        examples=["often"],
    ),
]


class LabelsResponse(BaseModel):
    """All labels, sorted."""

    revision: Revision
    private: bool
    labels: list[LabelEntry]
    undo: ChangeSummary | None = Field(description="The change that undo would revert")
    head: str | None = Field(
        default=None,
        description="How labels are told apart: discriminant or vote; null: no memory yet",
        examples=["discriminant"],
    )
    abilities: list[str] = Field(
        default=[],
        description="What the memory can do beside learning and answering",
        examples=[["copies", "negatives", "strangers", "suspects"]],
    )
    negatives: NegativesEntry | None = Field(
        default=None, description="Taught as none of these; null: nothing was"
    )
    strangers: str | None = Field(
        default=None,
        description="How often something unknown is expected: often, sometimes or rarely; null:"
        " by the vote, or no memory yet",
        examples=["sometimes"],
    )


class ExampleEntry(BaseModel):
    """An example with a thumbnail."""

    example: ExampleNumber
    concept: int = Field(
        description="Its number in the label; by the vote, its centroid", examples=[0]
    )


class ExamplesResponse(BaseModel):
    """The examples of a label, in the order learned."""

    label: str = Field(description="Empty: none of these", examples=["mug"])
    examples: int = Field(description="Number of all, with and without a thumbnail")
    kept: list[ExampleEntry]
    revision: Revision


class SkippedPicture(BaseModel):
    """A picture that could not be read and was not learned."""

    picture: str = Field(examples=["IMG_1.heic"])
    message: Message


class LearnResponse(BaseModel):
    """Pictures that were learned and pictures that were skipped."""

    learned: dict[str, int] = Field(
        description="Number of pictures by label", examples=[{"mug": 3}]
    )
    problems: list[SkippedPicture]
    revision: Revision
    copies: dict[str, int] = Field(
        default={},
        description="Pictures among them that were known already, or nearly the same as one"
        " that is: they add nothing",
        examples=[{"mug": 1}],
    )
    moved: dict[str, int] = Field(
        default={},
        description="Pictures that were taken from other labels, by these; the label of none"
        " of these is empty",
        examples=[{"cup": 1}],
    )
    gone: Gone = []
    spelled_alike: SpelledAlike = {}


class UnlearnResponse(BaseModel):
    """The label of the example that was removed."""

    label: str = Field(description="Empty: none of these", examples=["mug"])
    revision: Revision


class UnlearnManyResponse(BaseModel):
    """Examples that were removed."""

    removed: dict[str, int] = Field(
        description="Number of them by label; the label of none of these is empty",
        examples=[{"mug": 2}],
    )
    revision: Revision


class MoveResponse(BaseModel):
    """Examples that were moved to another label."""

    moved: dict[str, int] = Field(
        description="Number of them by the label they had; that of none of these is empty",
        examples=[{"watch": 3}],
    )
    copies: int = Field(
        description="Those nearly the same as one that the label has: they add nothing"
    )
    gone: Gone
    spelled_alike: SpelledAlike
    revision: Revision


class RankingEntry(BaseModel):
    """A label that the picture might have."""

    label: Label
    confidence: Share
    distance: float


class EvidenceEntry(BaseModel):
    """One of the learned pictures that are most similar; by the vote, a centroid that voted."""

    label: Label
    share: float = Field(ge=0.0, le=1.0, description="Share of all weights")
    weight: float
    distance: float
    pictures: int = Field(description="1; of a centroid, those it is the mean of")
    examples: list[int] = Field(description="Its number; of a centroid, the examples nearest to it")
    against: bool = Field(
        default=False, description="It is not of the likeliest label, and speaks against it"
    )


class RecognizeResponse(BaseModel):
    """The answer for a picture."""

    picture: str = Field(description="Name of the file; empty for a digest")
    seen: Digest
    label: str | None = Field(description="null: unknown", examples=["mug"])
    confidence: float | None = Field(
        description="Confidence in the answer; null: the memory is empty"
    )
    strangeness: float | None = Field(description="Above 1: unknown", examples=[0.45])
    ranking: list[RankingEntry] = Field(description="Most likely first")
    evidence: list[EvidenceEntry] = Field(
        description="Of the likeliest label, nearest first; then one of the next label"
    )
    revision: Revision
    taught: str | None = Field(
        default=None,
        description="Label that this picture, or one nearly the same, was taught as: to learn"
        " it again adds nothing; empty: none of these; null: it is new",
        examples=["mug"],
    )


class SuspectEntry(BaseModel):
    """An example that speaks for an answer, and the answer had it not been learned."""

    example: ExampleNumber
    label: str | None = Field(description="null: unknown", examples=["cup"])
    confidence: float | None = Field(description="null: nothing else is known")


class SuspectsResponse(BaseModel):
    """Examples that may be why an answer is wrong."""

    suspects: list[SuspectEntry] = Field(description="Most decisive first")
    revision: Revision


class UnreadablePicture(BaseModel):
    """A picture that could not be read, in place of its answer."""

    picture: str
    error: ErrorDetail


class RecognizeManyResponse(BaseModel):
    """An answer for each picture, in their order: files first, then digests."""

    answers: list[RecognizeResponse | UnreadablePicture]
    order: list[int] = Field(
        description="Indices of the answers, the one most worth asking a person about first"
    )
    revision: Revision


class GroupsResponse(BaseModel):
    """Pictures that look alike, by their digests."""

    groups: list[list[str]] = Field(
        description="The largest first, and in each the most typical picture first"
    )


class _RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


Digests = Annotated[list[Digest], Field(max_length=MAX_DIGESTS, min_length=1)]


class GroupRequest(_RequestModel):
    seen: Digests


class LabelledPictures(_RequestModel):
    label: Label
    seen: Digests


class LearnManyRequest(_RequestModel):
    things: list[LabelledPictures] = Field(max_length=MAX_DIGESTS, min_length=1)


class ForgetRequest(_RequestModel):
    label: Label
    for_good: bool = Field(
        default=False,
        description="Erase it from the file; this and earlier changes cannot be undone",
    )


class RenameRequest(_RequestModel):
    label: Label
    new: Label = Field(examples=["blue mug"])


class MergeRequest(_RequestModel):
    label: Label
    into: Label = Field(examples=["cup"])


class UnlearnRequest(_RequestModel):
    examples: ExampleNumbers


class MoveRequest(_RequestModel):
    examples: ExampleNumbers
    into: Label | None = Field(
        description="The label to move them to; null: none of these", examples=["phone"]
    )


class StrangersRequest(_RequestModel):
    strangers: HowOften


class UndoneStep(BaseModel):
    """A step that was taken back."""

    action: str = Field(examples=["merge"])
    text: str = Field(examples=["mug → cup"])
    labels: list[str] = Field(
        description="Its labels, the empty one for none of these; of rename, merge and move the"
        " last is the one that was there afterwards",
        examples=[["mug", "cup"]],
    )


class ChangeResponse(BaseModel):
    """The change that was made."""

    revision: Revision
    done: ChangeSummary
    spelled_alike: SpelledAlike = {}
    undone: UndoneStep | None = Field(default=None, description="Of undo: the step it took back")


class HistoryEntry(BaseModel):
    """A step of the history."""

    step: int
    time: str = Field(description="UTC", examples=["2026-11-15T12:00:00.000+00:00"])
    action: str = Field(examples=["learn"])
    text: str = Field(examples=["mug (3)"])
    undone: bool
    next: bool = Field(description="Undo would revert this step")


class HistoryResponse(BaseModel):
    """The steps, latest first."""

    revision: Revision
    steps: list[HistoryEntry]


class SimilarityEntry(BaseModel):
    """Two labels that may be the same thing."""

    label: Label
    other: str = Field(examples=["cup"])
    closeness: float = Field(ge=0.0, le=1.0, description="1: the same")


class WantedEntry(BaseModel):
    """A label for which more examples would help."""

    label: Label
    examples: int
    reason: Message


class AdviceResponse(BaseModel):
    """Labels that look alike, and labels that need more examples."""

    revision: Revision
    alike: list[SimilarityEntry]
    more: list[WantedEntry]


class WrongAnswerEntry(BaseModel):
    """A held-out example with a wrong answer."""

    example: ExampleNumber
    label: str = Field(description="Its label")
    answer: str | None = Field(description="The answer; null: unknown")


class ScoresResponse(BaseModel):
    """Leave-one-out test of the examples."""

    revision: Revision
    labels: list[str]
    matrix: list[list[int]] = Field(
        description="Confusion matrix: a row for each true label; the last column: unknown"
    )
    asked: int
    right: int
    unknown: int
    wrong: list[WrongAnswerEntry]
    problem: str | None = Field(description="Why there are no scores")


class DistributionEntry(BaseModel):
    """A normal distribution of the score."""

    mean: float = Field(examples=[0.68])
    deviation: float = Field(examples=[0.11])


class ForecastEntry(BaseModel):
    """Effect of a setting on the pictures that are kept.

    Each is asked about as if it had not been learned, and then as if its label were not known.
    """

    known: int = Field(description="Pictures asked about", examples=[24])
    refused: int = Field(description="Those that would be unknown", examples=[1])
    strange: int = Field(description="Pictures, without their labels", examples=[24])
    found: int = Field(description="Those that would be unknown", examples=[22])


class UnknownEntry(BaseModel):
    """Distributions that decide between known and unknown, and the pictures that tell."""

    strangers: HowOften
    known: DistributionEntry = Field(description="Of pictures of the labels")
    strange: DistributionEntry = Field(description="Of pictures of anything else")
    limit: float = Field(description="A score below it is unknown", examples=[0.48])
    known_scores: list[float] = Field(
        description="Of pictures kept, each as if it had not been learned"
    )
    strange_scores: list[float] = Field(description="Of these, as if their labels were not known")
    forecasts: dict[str, ForecastEntry] = Field(description="By setting")


class UnknownResponse(BaseModel):
    """Distributions that decide between known and unknown; null: there are none."""

    revision: Revision
    report: UnknownEntry | None = Field(description="null: nothing was learned, or it is the vote")


class MemoryEntry(BaseModel):
    """A memory that can be opened."""

    name: str = Field(description="Name of its file", examples=["shop.cbcl"])
    things: int | None = Field(description="Labels known; null: it cannot be read")
    changed: str | None = Field(
        description="UTC; null: there is no file yet", examples=["2026-11-16…"]
    )
    problem: str | None = Field(description="Why it cannot be read")


class MemoriesResponse(BaseModel):
    """The memories of a folder, the one changed latest first."""

    open: str = Field(description="The one that is open", examples=["shop.cbcl"])
    several: bool = Field(description="False: this server has one memory, and no other")
    memories: list[MemoryEntry]


class MemoryNameRequest(_RequestModel):
    name: str = Field(description="Name of a memory, no path", examples=["shop.cbcl"])


class DuplicateRequest(MemoryNameRequest):
    new: str = Field(description="Name of the copy", examples=["shop copy"])


class MemoryOpenedResponse(BaseModel):
    """The memory that is open from now on."""

    memory: str = Field(examples=["shop.cbcl"])
    revision: Revision


class DuplicateResponse(BaseModel):
    """The copy that was made."""

    memory: str = Field(examples=["shop copy.cbcl"])


class RestoreResponse(BaseModel):
    """The memory that was replaced, as it is kept."""

    kept: str | None = Field(
        description="Name of its file; null: there was none",
        examples=["shop (replaced 2026-11-16 18.05.10).cbcl"],
    )
    revision: Revision


class TestedEntry(BaseModel):
    """Examples of a label that were tested, each as if it had not been learned."""

    label: Label
    tested: int = Field(description="0: it has a single one", examples=[5])
    recognized: int = Field(examples=[4])
    wrong: list[WrongAnswerEntry]


class SelfTestResponse(BaseModel):
    """The self-test, label by label."""

    revision: Revision
    labels: list[TestedEntry]


class SimilarResponse(BaseModel):
    """Labels that look most like one, the closest first: sixteen at most."""

    label: Label
    similar: list[str] = Field(examples=[["cup", "bowl"]])
    revision: Revision


class ImportResponse(BaseModel):
    """Labels of the imported memory: new ones, and those merged with labels of the same name."""

    added: list[str]
    joined: list[str]
    revision: Revision
