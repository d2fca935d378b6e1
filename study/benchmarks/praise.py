"""What a yes should teach, and how many views are enough.

    python study/benchmarks/praise.py FOLDER --about NAME --leave-out CLASS

FOLDER holds one folder a class. Ten household things, or else the ten first classes, are taught;
two photos of each other class are strangers. Parts, each asked about other photos and strangers:

- **yes**: three photos of each thing are taught; then ten more are answered, and where the answer
  is right, somebody says yes. The picture is taught never, always (near-copies add nothing), or if
  the confidence is below a limit.
- **views**: things are taught by 1 to 20 photos each.

Sums over draws; the run is appended to study/results/praise.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from contest import record
from person import HOUSEHOLD

import cbcl
from cbcl import Answer, Recognizer
from cbcl.vision.extraction import EmbeddedPicture
from cbcl.vision.finding import find_labelled

RECORDS = Path(__file__).parent.parent / "results" / "praise.jsonl"
SHOTS = 3
ANSWERED = 10  # photos of each thing to which somebody may say yes
VIEWS = (1, 3, 6, 9, 12, 15, 20)
ASKED = 12  # other photos of each thing
STRANGERS = 80
NEEDED = max(SHOTS + ANSWERED, *VIEWS) + ASKED  # photos of a thing

POLICIES: dict[str, Callable[[Answer], bool]] = {
    "never": lambda _: False,
    "always": lambda _: True,
    "below 0.95": lambda answer: answer.confidence < 0.95,
    "below 0.8": lambda answer: answer.confidence < 0.8,
}


class Draw(NamedTuple):
    """Photos of each thing in random order, the last of which are asked about, and strangers."""

    photos: dict[str, list[EmbeddedPicture]]
    strangers: list[EmbeddedPicture]


class Bench:
    """Photos, each embedded once, and memories that are gone afterwards."""

    def __init__(self, folder: Path, leave_out: str, backbone: str) -> None:
        by_label: dict[str, list[Path]] = {}
        for label, path in find_labelled([folder]):
            if label != leave_out:
                by_label.setdefault(label, []).append(path)
        large = [label for label, paths in by_label.items() if len(paths) >= NEEDED]
        household = [label for label in HOUSEHOLD if label in large]
        self.things = household if len(household) == len(HOUSEHOLD) else large[: len(HOUSEHOLD)]
        self._files = {label: by_label[label] for label in self.things}
        self._others = [
            path
            for label, paths in by_label.items()
            if label not in self.things
            for path in paths[:2]
        ]
        self._embedded: dict[Path, EmbeddedPicture] = {}
        with tempfile.TemporaryDirectory() as place:
            self.recognizer = Recognizer(Path(place, "m.cbcl"), backbone)
            self.backbone = self.recognizer.backbone

    def draw(self, seed: int) -> Draw:
        rng = np.random.default_rng(seed)
        photos = {
            label: self._look([files[row] for row in rng.permutation(len(files))[:NEEDED]])
            for label, files in self._files.items()
        }
        rows = rng.permutation(len(self._others))[:STRANGERS]
        return Draw(photos, self._look([self._others[row] for row in rows]))

    def _look(self, paths: Sequence[Path]) -> list[EmbeddedPicture]:
        new = [path for path in paths if path not in self._embedded]
        self._embedded.update(zip(new, self.recognizer.look(new), strict=True))
        return [self._embedded[path] for path in paths]

    def ask(self, draw: Draw, shots: int, policy: Callable[[Answer], bool]) -> dict[str, int]:
        """Teach photos, say yes by a policy, and ask about the last photos and strangers."""
        with (
            tempfile.TemporaryDirectory() as place,
            Recognizer(Path(place, "m.cbcl"), self.backbone, cache=False) as recognizer,
        ):
            recognizer.learn_many({label: some[:shots] for label, some in draw.photos.items()})
            confirmed = 0
            for row in range(SHOTS, SHOTS + ANSWERED):
                for label, some in draw.photos.items():
                    answer = recognizer.recognize(some[row])
                    confirmed += answer.label == label
                    if answer.label == label and policy(answer):
                        recognizer.learn(label, [some[row]])
            right = wrong = 0
            for label, some in draw.photos.items():
                said = [answer.label for answer in recognizer.recognize_many(some[-ASKED:])]
                right += said.count(label)
                wrong += len(said) - said.count(label) - said.count(None)
            strange = recognizer.recognize_many(draw.strangers)
            return {
                "confirmed": confirmed,
                "photos": sum(recognizer.labels().values()),
                "right": right,
                "wrong": wrong,
                "asked": ASKED * len(draw.photos),
                "found": sum(answer.label is None for answer in strange),
                "strangers": len(strange),
            }


def total(rows: Sequence[dict[str, int]]) -> dict[str, int]:
    return {key: sum(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--about", help="the data set's name", required=True)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--backbone", default="efficientnet-lite0@2views")
    parser.add_argument("--draws", type=int, default=10)
    args = parser.parse_args()
    bench = Bench(args.data, args.leave_out, args.backbone)
    draws = [bench.draw(seed) for seed in range(args.draws)]
    results: list[dict[str, object]] = []
    ways = [("yes", name, SHOTS, policy) for name, policy in POLICIES.items()]
    ways += [("views", str(views), views, POLICIES["never"]) for views in VIEWS]
    for part, name, shots, policy in ways:
        sums = total([bench.ask(draw, shots, policy) for draw in draws])
        results.append({"part": part, "way": name, **sums})
        words = "   ".join(f"{key} {value}" for key, value in sums.items())
        print(f"{part:<6} {name:<10} {words}")
    protocol = {"things": bench.things, "shots": SHOTS, "answered": ANSWERED, "seeds": args.draws}
    seen = f"{bench.backbone.name} {bench.backbone.fingerprint}"
    about = {"about": args.about, "backbone": seen, "protocol": protocol}
    with RECORDS.open("a") as file:
        file.write(json.dumps(record([cbcl, np], results, **about)) + "\n")


if __name__ == "__main__":
    main()
