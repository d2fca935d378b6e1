"""Unknown: how well strangers are found, known things kept, and confidences true, from the start.

    python study/benchmarks/unknown.py FOLDER --about Caltech-101 --leave-out BACKGROUND_Google

FOLDER holds one folder a class. A draw teaches some classes, at random, from a few photos each, as
`Recognizer` learns them, and asks about up to 30 other photos of each, and about ten photos of each
of 30 other classes: strangers are drawn by class, so that no large class decides. Classes that are
hardly told apart from a known one by people (SIBLINGS) are asked about apart, and so is the folder
that was left out. By cell (things x photos), over the draws:

- refused: known photos that are called unknown; found: strangers that are, on average and in the
  worst draw; right: known photos whose first guess is right; area under the ROC curve;
- calibration error (ten bins) of what is answered, names and "unknown" alike, where strangers are
  asked as often as the setting expects them; middle: by how much the names that are shown
  with 50 to 90 % are less often right than they say, and how many of the answers these are.

Each run is appended to results/unknown.jsonl with its record. The sources of another checkout are
measured by the same script: PYTHONPATH=OTHER/src python study/benchmarks/unknown.py FOLDER ...
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import PIL
from contest import record
from numpy.typing import NDArray
from rich.progress import Progress
from sklearn.metrics import roc_auc_score

import cbcl
from cbcl import Recognizer
from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.discriminant.directions import as_directions
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.vision.finding import find_labelled

RECORDS = Path(__file__).parent.parent / "results" / "unknown.jsonl"
CELLS = "1x1 2x1 5x1 1x3 2x3 2x5 5x3 10x3 10x5 50x5 2x3,20 5x2-20"
ODDS = {"often": 1.0, "sometimes": 2.0, "rarely": 9.0}  # of known things, while few are known
MAX_ASKED = 30  # photos of a class
STRANGE_CLASSES, STRANGE_PHOTOS = 30, 10
SIBLINGS = (
    {"Faces", "Faces_easy"},
    {"crocodile", "crocodile_head"},
    {"cougar_body", "cougar_face", "Leopards", "wild_cat"},
    {"flamingo", "flamingo_head"},
    {"lotus", "water_lilly"},
    {"ketch", "schooner"},
    {"crab", "crayfish", "lobster"},
)
HOUSEHOLD = (  # things of Caltech-101 that one has at home, of which lists are drawn
    *("binocular", "camera", "ceiling_fan", "cellphone", "chair", "cup", "dollar_bill"),
    *("electric_guitar", "ewer", "ferry", "garfield", "grand_piano", "headphone", "inline_skate"),
    *("lamp", "laptop", "mandolin", "menorah", "metronome", "pizza", "scissors", "snoopy"),
    *("soccer_ball", "stapler", "strawberry", "sunflower", "umbrella", "watch", "windsor_chair"),
    *("wrench", "yin_yang"),
)


class Cell(NamedTuple):
    """So many things, and the number of photos of each: all the same, listed, or in a range."""

    name: str
    things: int
    photos: tuple[int, ...]
    ranged: bool

    @classmethod
    def of(cls, name: str) -> Cell:
        things, photos = name.split("x")
        numbers = tuple(int(number) for number in photos.replace("-", ",").split(","))
        return cls(name, int(things), numbers, "-" in photos)

    def counts(self, rng: np.random.Generator) -> list[int]:
        if self.ranged:
            low, high = self.photos
            counts: list[int] = rng.integers(low, high, self.things, endpoint=True).tolist()
            return counts
        return [*self.photos] if len(self.photos) == self.things else [*self.photos] * self.things

    def share(self, strangers: str) -> float:
        """Return the share of strangers among all questions that a setting expects."""
        return 1.0 / (1.0 + ODDS[strangers] * (1.0 + self.things / 12.0))


class Asked(NamedTuple):
    """Answers about some vectors."""

    is_unknown: NDArray[np.bool_]
    confidence: Float64s  # in the answer
    guess: NDArray[Any]  # the likeliest label
    known: Float64s  # probability of any label


class Photos:
    """The vectors of a folder of folders, by class."""

    def __init__(self, folder: Path, leave_out: str, backbone: str) -> None:
        files = list(find_labelled([folder]))
        with (
            tempfile.TemporaryDirectory() as place,
            Recognizer(Path(place, "m.cbcl"), backbone) as recognizer,
            Progress() as bar,
        ):
            task = bar.add_task("looking", total=len(files))
            self.vectors = recognizer.embed(
                [path for _, path in files],
                progress=lambda done, _: bar.update(task, completed=done),
            )
            self.backbone: Backbone = recognizer.backbone
        labels = np.array([label for label, _ in files])
        self.rows = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
        self.background = self.rows.pop(leave_out, np.empty(0, dtype=np.int64))

    def ask(
        self, taught: dict[str, NDArray[np.int64]], questions: Sequence[Any], strangers: Any
    ) -> list[Asked]:
        """Teach these rows by label in a new memory, and ask about others."""
        with (
            tempfile.TemporaryDirectory() as place,
            Recognizer(Path(place, "m.cbcl"), self.backbone, private=True) as recognizer,
        ):
            recognizer.learn_many({label: self._seen(rows) for label, rows in taught.items()})
            if strangers != "sometimes":
                recognizer.expect_strangers(strangers)
            model: Any = recognizer.snapshot()._model
        return [judge(model.solved, self.vectors[rows]) for rows in questions]

    def _seen(self, rows: NDArray[np.int64]) -> list[EmbeddedPicture]:
        fingerprint = self.backbone.fingerprint
        return [EmbeddedPicture(self.vectors[row], b"", fingerprint) for row in rows]


def judge(knowledge: Any, vectors: Float32s) -> Asked:
    judgement = knowledge.judge_directions(as_directions(vectors))
    best = judgement.known * judgement.shares.max(axis=1)
    is_unknown = 1.0 - judgement.known > best
    guess = np.array(knowledge.labels)[judgement.shares.argmax(axis=1)]
    confidence = np.where(is_unknown, 1.0 - judgement.known, best)
    return Asked(is_unknown, confidence, guess, judgement.known)


def draw(
    photos: Photos, pool: Sequence[str], cell: Cell, strangers: str, seed: int
) -> dict[str, Any]:
    """Teach and ask once."""
    rng = np.random.default_rng(seed)
    classes = [pool[i] for i in rng.permutation(len(pool))]
    rest = [label for label in photos.rows if label not in pool]
    classes += [rest[i] for i in rng.permutation(len(rest))]
    rows = {label: rng.permutation(photos.rows[label]) for label in classes}
    counts = dict(zip(classes[: cell.things], cell.counts(rng), strict=True))
    close = {one for group in SIBLINGS if group & {*counts} for one in group}
    others = [label for label in classes[cell.things :] if label not in close]
    asked = {label: rows[label][n : n + MAX_ASKED] for label, n in counts.items()}
    strange = np.concatenate([rows[label][:STRANGE_PHOTOS] for label in others[:STRANGE_CLASSES]])
    siblings = [rows[label][:STRANGE_PHOTOS] for label in classes[cell.things :] if label in close]
    sibling_rows = np.concatenate([np.empty(0, dtype=np.int64), *siblings])
    known_rows = np.concatenate([*asked.values()])
    background = rng.permutation(photos.background)[: STRANGE_CLASSES * STRANGE_PHOTOS]
    questions = [known_rows, strange, sibling_rows, background]
    taught = {label: rows[label][:n] for label, n in counts.items()}
    known, unknown, sibling, random = photos.ask(taught, questions, strangers)
    truth = np.repeat([*asked], [len(some) for some in asked.values()])
    right = known.guess == truth
    both = [np.concatenate(pair) for pair in zip(known, unknown, strict=True)]
    is_right = np.concatenate([right & ~known.is_unknown, unknown.is_unknown])
    share = cell.share(strangers)
    weights = np.repeat(
        [(1.0 - share) / len(right), share / len(strange)], [len(right), len(strange)]
    )
    is_unknown, confidence, _, probability = both
    is_known = np.arange(len(is_right)) < len(right)
    return {
        "right": float(right.mean()),
        "refused": float(known.is_unknown.mean()),
        "found": float(unknown.is_unknown.mean()),
        "siblings_found": float(sibling.is_unknown.mean()) if len(sibling_rows) else None,
        "background_found": float(random.is_unknown.mean()) if len(background) else None,
        "area": float(roc_auc_score(is_known, probability)),
        "answers": [
            bins(confidence, is_right, weights),
            bins(confidence, is_right, weights * ~is_unknown),
        ],
    }


def bins(confidence: Float64s, right: NDArray[np.bool_], weights: Float64s) -> list[list[float]]:
    """Return of each tenth of confidence: weight, weighted confidence, weight of what is right."""
    places = np.minimum((confidence * 10).astype(np.int64), 9)
    columns = [weights, weights * confidence, weights * right]
    sums = [np.bincount(places, column, 10) for column in columns]
    table: list[list[float]] = np.stack(sums, axis=1).round(5).tolist()
    return table


def summarize(cell: Cell, strangers: str, draws: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the draws; calibration is that of all their answers together."""

    def mean(name: str) -> float | None:
        values = [one[name] for one in draws if one[name] is not None]
        return round(float(np.mean(values)), 4) if values else None

    every = np.mean([one["answers"][0] for one in draws], axis=0)
    names = np.mean([one["answers"][1] for one in draws], axis=0)[5:9].sum(axis=0)
    worst = min(one["found"] for one in draws)
    return {
        "cell": cell.name,
        **{name: mean(name) for name in ("right", "refused", "found")},
        "worst": round(worst, 4),
        **{name: mean(name) for name in ("siblings_found", "background_found", "area")},
        "share": round(cell.share(strangers), 3),
        "calibration_error": round(float(np.abs(every[:, 1] - every[:, 2]).sum()), 4),
        "middle": round(float((names[1] - names[2]) / names[0]), 4) if names[0] else None,
        "in_the_middle": round(float(names[0]), 4),
    }


def show(row: dict[str, Any]) -> str:
    numbers = {key: "-" if value is None else value for key, value in row.items()}
    return "  ".join(f"{key} {value}" for key, value in numbers.items())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--about", help="the data set's name", required=True)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--backbone", default="efficientnet-lite0@2views")
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--first-seed", type=int, default=9000)
    parser.add_argument("--household", action="store_true", help="draw the things of HOUSEHOLD")
    parser.add_argument("--strangers", choices=ODDS, default="sometimes", help="the setting")
    parser.add_argument("--commit", help="of the sources, where they are not this checkout's")
    args = parser.parse_args()
    photos = Photos(args.folder, args.leave_out, args.backbone)
    pool = [label for label in photos.rows if not args.household or label in HOUSEHOLD]
    results = []
    for cell in map(Cell.of, args.cells.split()):
        seeds = range(args.first_seed, args.first_seed + args.draws)
        draws = [draw(photos, pool, cell, args.strangers, seed) for seed in seeds]
        results.append(summarize(cell, args.strangers, draws))
        print(show(results[-1]), flush=True)
    made = record(
        [cbcl, np, onnxruntime, PIL],
        results,
        about=args.about,
        backbone=f"{photos.backbone.name} {photos.backbone.fingerprint}",
        protocol={
            "draws": args.draws,
            "first seed": args.first_seed,
            "household": args.household,
            "strangers": args.strangers,
            "photos": len(photos.vectors),
        },
    )
    if args.commit:
        made["commit"] = args.commit
    with RECORDS.open("a") as file:
        file.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
