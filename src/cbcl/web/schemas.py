"""The shapes of all that is asked and answered, from which the API describes itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal[
    "picture",
    "label",
    "argument",
    "memory",
    "backbone",
    "size",
    "slow",
    "busy",
    "rate",
    "token",
    "origin",
    "missing",
    "method",
    "seen",
    "internal",
]
Revision = Annotated[
    int,
    Field(description="Grows with every change of the memory; 0: there is none yet", examples=[12]),
]
Label = Annotated[str, Field(examples=["mug"])]
Sentence = Annotated[str, Field(examples=["IMG_1.jpg is broken: image file is truncated."])]
Digest = Annotated[
    str,
    Field(
        description="SHA-256 of the picture's bytes: stands for it as long as the server remembers",
        examples=["9f86d081884c7d65…"],
    ),
]
ExampleNumber = Annotated[
    int, Field(description="An example's own number, for good", examples=[17])
]
Share = Annotated[float, Field(ge=0.0, le=1.0, examples=[0.97])]


class Error(BaseModel):
    """What went wrong."""

    kind: Kind
    message: Sentence
    retry_after: Annotated[
        int | None, Field(description="Seconds; with kind busy or rate only")
    ] = None
    seen: Annotated[
        list[str] | None, Field(description="Digests no longer remembered; with kind seen only")
    ] = None


class Failed(BaseModel):
    """The body of every answer that is not 200."""

    error: Error


class Version(BaseModel):
    """Which software this is."""

    cbcl: Annotated[str, Field(examples=["0.1.0"])]
    api: Annotated[int, Field(examples=[1])]


class Backbone(BaseModel):
    """What sees."""

    name: Annotated[str, Field(examples=["efficientnet-lite0"])]
    ready: Annotated[bool, Field(description="Whether it has looked at something already")]
    problem: Annotated[
        str | None, Field(description="Why it cannot be had; null: it can, or was not tried yet")
    ]


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok"] = "ok"
    memory: Annotated[str, Field(description="The file's name", examples=["shop.cbcl"])]
    revision: Revision
    private: Annotated[bool, Field(description="No thumbnails are kept")]
    backbone: Backbone
    learning: Annotated[int, Field(description="Changes that are not done yet", examples=[0])]


class Deed(BaseModel):
    """Something that was done."""

    action: Annotated[str, Field(examples=["learn"])]
    text: Annotated[str, Field(examples=["learn mug (3)"])]


class Thing(BaseModel):
    """A label that is known."""

    label: Label
    examples: Annotated[int, Field(description="Pictures it was learned from", examples=[5])]
    concepts: Annotated[int, Field(description="Centroids these became", examples=[1])]
    kept: Annotated[int, Field(description="Examples of which a thumbnail is kept", examples=[5])]
    shown: Annotated[list[int], Field(description="A few of these", examples=[[17, 18]])]


class Labels(BaseModel):
    """All that is known."""

    revision: Revision
    private: bool
    labels: list[Thing]
    undo: Annotated[Deed | None, Field(description="What undo would take back")]


class Kept(BaseModel):
    """An example that is kept."""

    example: ExampleNumber
    concept: Annotated[int, Field(description="The concept nearest to it", examples=[0])]


class Examples(BaseModel):
    """The examples of a label, in the order learned."""

    label: Label
    examples: Annotated[int, Field(description="In all; not all need be kept")]
    kept: list[Kept]
    revision: Revision


class Problem(BaseModel):
    """A picture that was left out."""

    picture: Annotated[str, Field(examples=["IMG_1.heic"])]
    message: Sentence


class Learned(BaseModel):
    """What was learned."""

    learned: Annotated[
        dict[str, int], Field(description="Pictures by label", examples=[{"mug": 3}])
    ]
    problems: list[Problem]
    revision: Revision


class Removed(BaseModel):
    """An example was taken back."""

    label: Label
    revision: Revision


class Guess(BaseModel):
    """A label that a picture might have."""

    label: Label
    confidence: Share
    distance: float


class Reason(BaseModel):
    """A concept that voted."""

    label: Label
    share: Annotated[float, Field(ge=0.0, le=1.0, description="Of all votes")]
    weight: float
    distance: float
    pictures: Annotated[int, Field(description="That stand behind it")]
    examples: Annotated[list[int], Field(description="Those of them nearest to it")]


class Answer(BaseModel):
    """What a picture shows."""

    picture: Annotated[str, Field(description="The file's name; empty where a digest was given")]
    seen: Digest
    label: Annotated[str | None, Field(description="null: unknown", examples=["mug"])]
    confidence: Annotated[
        float | None, Field(description="Of that answer; null: nothing is known at all")
    ]
    strangeness: Annotated[float | None, Field(description="Above 1: unknown", examples=[0.45])]
    ranking: Annotated[list[Guess], Field(description="The likeliest first")]
    evidence: Annotated[list[Reason], Field(description="The nearest first")]
    revision: Revision


class Unanswered(BaseModel):
    """A picture that could not be read."""

    picture: str
    error: Error


class Answers(BaseModel):
    """An answer for each picture, in their order: files first, then digests."""

    answers: list[Answer | Unanswered]
    order: Annotated[
        list[int], Field(description="Indices of answers: most worth asking a person about first")
    ]
    revision: Revision


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Forget(_Request):
    label: Label
    for_good: Annotated[
        bool,
        Field(description="Leave nothing of it in the file; nothing before can be undone then"),
    ] = False


class Rename(_Request):
    label: Label
    new: Annotated[str, Field(examples=["blue mug"])]


class Merge(_Request):
    label: Label
    into: Annotated[str, Field(examples=["cup"])]


class Changed(BaseModel):
    """A change was made."""

    revision: Revision
    done: Deed


class Step(BaseModel):
    """A line of the history."""

    step: int
    time: Annotated[str, Field(description="UTC", examples=["2026-11-15T12:00:00.000+00:00"])]
    action: Annotated[str, Field(examples=["learn"])]
    text: Annotated[str, Field(examples=["mug (3)"])]
    undone: bool
    next: Annotated[bool, Field(description="Undo would take back this one")]


class History(BaseModel):
    """What was done, the latest first."""

    revision: Revision
    steps: list[Step]


class Alike(BaseModel):
    """Two labels that may be the same thing."""

    label: Label
    other: Annotated[str, Field(examples=["cup"])]
    closeness: Annotated[float, Field(ge=0.0, le=1.0, description="1: the same")]


class Wanted(BaseModel):
    """A label of which more examples would help."""

    label: Label
    examples: int
    reason: Sentence


class Advice(BaseModel):
    """What the teacher could do next."""

    revision: Revision
    alike: list[Alike]
    more: list[Wanted]


class Missed(BaseModel):
    """A held-out example with a wrong answer."""

    example: ExampleNumber
    label: Annotated[str, Field(description="What it is")]
    answer: Annotated[str | None, Field(description="What was answered; null: unknown")]


class Scores(BaseModel):
    """Answers for examples that were held out, one after the other."""

    revision: Revision
    labels: list[str]
    matrix: Annotated[
        list[list[int]],
        Field(description="A row for each true label: a count a label, then unknown"),
    ]
    asked: int
    right: int
    unknown: int
    wrong: list[Missed]
    problem: Annotated[str | None, Field(description="Why there are no scores")]


class Adopted(BaseModel):
    """What became of another memory's labels."""

    added: list[str]
    joined: Annotated[list[str], Field(description="With what was known of them")]
    revision: Revision
