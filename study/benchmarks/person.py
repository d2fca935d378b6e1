"""Teaching as people do it: more of the same must not make the answers worse.

    python study/benchmarks/person.py --data FOLDER --about NAME --leave-out NAME

FOLDER holds one folder a class: ten household things, or else the ten first classes, are taught;
photos of the other classes are strangers. Everything is seeded, and pooled over draws. Parts:

- **memories**: four things taught by single snaps of three photos each, or by holding the button
  (33 frames of each photo, moved by a few pixels), or one of them by 300 frames; "yes" pressed 12
  and 20 times on one more view of each of five things; a folder of ten things learned again, or the
  memory's own backup added. The same other photos are asked about, and strangers. Wanted: at most
  2 points fewer right answers than the same photos shown once, and a self-test (`examine`) within
  5 points of the share right.
- **corrections**: photos answered wrongly are taught and asked about again; others are taught under
  a wrong name first. Wanted: all right, and none left under the wrong name.
- **as a user meets it**: ten things, three photos each: right, refused, wrong, strangers found, and
  the calibration of the confidence (ten bins).

Each run is appended to study/results/person.jsonl with its record.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnxruntime
import PIL
from contest import record
from person_report import Judged, Tally, show_corrections, show_memories, show_met
from PIL import Image

import cbcl
from cbcl import Answer, Recognizer
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.extraction import EmbeddedPicture

RECORDS = Path(__file__).parent.parent / "results" / "person.jsonl"
HOUSEHOLD = (
    *("camera", "chair", "cup", "headphone", "lamp"),
    *("laptop", "scissors", "stapler", "umbrella", "watch"),
)
VIEWS = 3  # photos that a thing is taught with
FOLDER = 5  # photos of each thing in the folder that is learned again and again
CORRECTED = (VIEWS, 20)  # photos a thing is known by when its photos are corrected
MAX_CORRECTIONS = 60  # of a draw
FRAMES = 33  # of each view, in a burst
MANY_FRAMES = 100  # of each view of the thing that is taught 300 times
SHIFT = 4  # pixels, most that a frame of a burst is moved each way
PRESSES = (1, 12, 20)  # of "yes"
MAX_ASKED = 40  # photos of a thing
MAX_MET = 20  # likewise, as a user meets it
STRANGERS = 120
CAMERA_QUALITY = 92  # of the JPEGs that the page's camera makes

Questions: TypeAlias = list[tuple[str, EmbeddedPicture]]


@contextmanager
def new_memory(backbone: str | Backbone) -> Iterator[Recognizer]:
    """Open a new memory that is gone afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Recognizer(Path(folder, "m.cbcl"), backbone, cache=False) as recognizer,
    ):
        yield recognizer


class Photos:
    """Photos by class, each embedded once, and frames of them as a camera would take them."""

    def __init__(self, folder: Path, leave_out: Sequence[str], backbone: str) -> None:
        self._embedded: dict[Path, EmbeddedPicture] = {}
        with new_memory(backbone) as recognizer:
            self.backbone = recognizer.backbone
            found = recognizer.embedder.find_labelled([folder])
        needed = max(CORRECTED) + VIEWS
        self.files = {label: paths for label, paths in found.items() if label not in leave_out}
        large = [label for label, paths in self.files.items() if len(paths) >= needed]
        household = [label for label in HOUSEHOLD if label in large]
        self.things = household if len(household) == len(HOUSEHOLD) else large[: len(HOUSEHOLD)]

    def memory(self) -> AbstractContextManager[Recognizer]:
        return new_memory(self.backbone)

    def look(self, paths: Sequence[Path]) -> list[EmbeddedPicture]:
        new = [path for path in paths if path not in self._embedded]
        with self.memory() as recognizer:
            self._embedded.update(zip(new, recognizer.look(new), strict=True))
        return [self._embedded[path] for path in paths]

    def frames(
        self, path: Path, count: int, shift: int, rng: np.random.Generator
    ) -> list[EmbeddedPicture]:
        """Embed frames of a photo, each moved by up to so many pixels each way."""
        with Image.open(path) as file:
            image = file.convert("RGB")
        with self.memory() as recognizer:
            return recognizer.look([frame(image, shift, rng) for _ in range(count)])


def frame(image: Image.Image, shift: int, rng: np.random.Generator) -> bytes:
    """Return the JPEG of a part of an image: moved, a little lighter or darker, and noisy."""
    width, height = (side - 2 * shift for side in image.size)
    left, top = rng.integers(0, 2 * shift, size=2, endpoint=True).tolist()
    part = np.asarray(image.crop((left, top, left + width, top + height)))
    pixels = part * rng.uniform(0.97, 1.03) + rng.normal(scale=2.0, size=part.shape)
    file = io.BytesIO()
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(
        file, "JPEG", quality=CAMERA_QUALITY
    )
    return file.getvalue()


class Draw:
    """One draw: an order of the things and of the photos of each, and strangers."""

    def __init__(self, photos: Photos, seed: int) -> None:
        self.photos, self.rng = photos, np.random.default_rng(seed)
        self.things = [photos.things[i] for i in self.rng.permutation(len(photos.things))]
        self.paths = {
            thing: [photos.files[thing][i] for i in self.rng.permutation(len(photos.files[thing]))]
            for thing in self.things
        }
        others = [
            path
            for label, some in photos.files.items()
            if label not in self.things
            for path in some
        ]
        chosen = self.rng.permutation(len(others))[:STRANGERS]
        self.strangers = photos.look([others[i] for i in chosen])

    def teachers(self, thing: str, count: int) -> list[EmbeddedPicture]:
        """Return the photos of a thing that are taught."""
        return self.photos.look(self.paths[thing][:count])

    def questions(
        self, things: Sequence[str], first: int = max(CORRECTED), count: int = MAX_ASKED
    ) -> Questions:
        """Return other photos of these things."""
        return [
            (thing, picture)
            for thing in things
            for picture in self.photos.look(self.paths[thing][first : first + count])
        ]

    def ask(self, recognizer: Recognizer, things: Sequence[str]) -> Tally:
        """Ask about other photos and strangers, and let the memory test itself."""
        tally: Tally = Counter()
        questions = self.questions(things)
        answers = recognizer.recognize_many([picture for _, picture in questions])
        for (thing, _), answer in zip(questions, answers, strict=True):
            tally[judge(answer, thing)] += 1
        tally["strangers"] = len(self.strangers)
        tally["found"] = sum(
            answer.label is None for answer in recognizer.recognize_many(self.strangers)
        )
        test = recognizer.snapshot().examine()
        return tally + Counter(tested=test.asked, passed=test.right)


def judge(answer: Answer, thing: str) -> str:
    if answer.label is None:
        return "refused"
    return "right" if answer.label == thing else "wrong"


def by_bursts(draw: Draw) -> dict[str, Tally]:
    """Teach four things by single snaps, by bursts, and one of them far more than the others."""
    things = draw.things[:4]
    snaps = {thing: [[photo] for photo in draw.teachers(thing, VIEWS)] for thing in things}
    bursts = {
        thing: [
            draw.photos.frames(path, FRAMES if number else MANY_FRAMES, SHIFT, draw.rng)
            for path in draw.paths[thing][:VIEWS]
        ]
        for number, thing in enumerate(things)
    }
    often = things[0]
    ways = {
        "4 things x 3 photos, single snaps": snaps,
        f"held: {FRAMES} frames of each photo": {
            thing: [frames[:FRAMES] for frames in views] for thing, views in bursts.items()
        },
        f"one by {VIEWS * MANY_FRAMES} frames, others thrice": {**snaps, often: bursts[often]},
    }
    return {name: _teach(draw, lessons, things) for name, lessons in ways.items()}


def _teach(
    draw: Draw, lessons: Mapping[str, Sequence[Sequence[EmbeddedPicture]]], things: Sequence[str]
) -> Tally:
    with draw.photos.memory() as recognizer:
        for thing, views in lessons.items():
            for pictures in views:
                recognizer.learn(thing, pictures)
        return draw.ask(recognizer, things)


def by_yes(draw: Draw) -> dict[str, Tally]:
    """Press "yes" again and again while one view of each of five things is shown."""
    things = draw.things[:5]
    views = {thing: draw.paths[thing][VIEWS] for thing in things}
    shown = {thing: draw.photos.look([path]) * PRESSES[-1] for thing, path in views.items()}
    moved = {
        thing: [shown[thing][0], *draw.photos.frames(path, PRESSES[-1] - 1, 1, draw.rng)]
        for thing, path in views.items()
    }
    tallies = {}
    for how, frames in {"moved by a pixel": moved, "the same picture": shown}.items():
        with draw.photos.memory() as recognizer:
            for thing in things:
                recognizer.learn(thing, draw.teachers(thing, VIEWS))
            for before, presses in zip((0, *PRESSES), PRESSES, strict=False):
                for thing in things:
                    for picture in frames[thing][before:presses]:
                        recognizer.learn(thing, picture)
                name = f'"yes" {presses} times, {how}' if presses > 1 else '5 things, "yes" once'
                tallies[name] = draw.ask(recognizer, things)
    return tallies


def by_folder(draw: Draw) -> dict[str, Tally]:
    """Learn the same folder of ten things again, or add the memory's own backup."""
    folder = {thing: draw.teachers(thing, FOLDER) for thing in draw.things}
    tallies = {}
    with draw.photos.memory() as recognizer:
        recognizer.learn_many(folder)
        tallies["10 things x 5 photos, folder learned once"] = draw.ask(recognizer, draw.things)
        backup = recognizer.path.with_name("backup.cbcl")
        recognizer.save_copy(backup)
        recognizer.adopt(backup)
        tallies["own backup added"] = draw.ask(recognizer, draw.things)
    with draw.photos.memory() as recognizer:
        for times in range(1, 5):
            recognizer.learn_many(folder)
            if times in (2, 4):
                tallies[f"folder learned {times} times"] = draw.ask(recognizer, draw.things)
    return tallies


def by_correcting(draw: Draw, shots: int) -> Tally:
    """Teach photos that were not recognized, and photos under a wrong name first."""
    tally: Tally = Counter()
    questions = draw.questions(draw.things, first=shots, count=2 * MAX_ASKED)
    order = draw.rng.permutation(len(questions))
    with draw.photos.memory() as recognizer:
        recognizer.learn_many({thing: draw.teachers(thing, shots) for thing in draw.things})
        corrected: Questions = []
        for thing, picture in (questions[i] for i in order):
            if len(corrected) < MAX_CORRECTIONS and recognizer.recognize(picture).label != thing:
                recognizer.learn(thing, picture)
                corrected.append((thing, picture))
                tally["right at once"] += recognizer.recognize(picture).label == thing
        tally["corrected"] = len(corrected)
        tally["right at the end"] = _right(recognizer, corrected)
    with draw.photos.memory() as recognizer:
        recognizer.learn_many({thing: draw.teachers(thing, shots) for thing in draw.things})
        moved = [questions[i] for i in order[: len(draw.things)]]
        expected = Counter(recognizer.labels())
        for thing, picture in moved:
            recognizer.learn(draw.things[draw.things.index(thing) - 1], picture)
            recognizer.learn(thing, picture)
            expected[thing] += 1
        tally["mislabelled"] = len(moved)
        tally["mislabelled, right"] = _right(recognizer, moved)
        tally["mislabelled, still there"] = (Counter(recognizer.labels()) - expected).total()
    return tally


def _right(recognizer: Recognizer, questions: Questions) -> int:
    answers = recognizer.recognize_many([picture for _, picture in questions])
    pairs = zip(questions, answers, strict=True)
    return sum(answer.label == thing for (thing, _), answer in pairs)


def unknown_bounds(answer: Answer, labels: int) -> tuple[float, float]:
    """Return the least and the most that the probability of "unknown" can be.

    It is what all labels leave to 1; those that are not ranked have at most the last one's each.
    """
    ranked = [guess.confidence for guess in answer.ranking]
    most = 1.0 - sum(ranked)
    return most - (labels - len(ranked)) * ranked[-1], most


def as_met(draw: Draw) -> list[Judged]:
    """Ask about ten things known from three photos each, and about strangers."""
    with draw.photos.memory() as recognizer:
        for thing in draw.things:
            recognizer.learn(thing, draw.teachers(thing, VIEWS))
        asked: list[tuple[str | None, EmbeddedPicture]] = [
            *draw.questions(draw.things, count=MAX_MET),
            *((None, picture) for picture in draw.strangers),
        ]
        answers = recognizer.recognize_many([picture for _, picture in asked])
    judged = []
    for (thing, _), answer in zip(asked, answers, strict=True):
        named = answer.label is not None
        least, most = unknown_bounds(answer, len(draw.things))
        judged.append(
            Judged(
                stranger=thing is None,
                named=named,
                right=answer.label == thing,
                confidence=answer.confidence,
                unlikely=named and least > answer.confidence,
                perhaps_unlikely=named and most > answer.confidence,
            )
        )
    return judged


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of folders of photos")
    parser.add_argument("--leave-out", nargs="*", default=[], help="classes that are not used")
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--about", help="the data set's name", required=True)
    args = parser.parse_args()
    photos = Photos(args.data, args.leave_out, args.backbone)
    parts: list[dict[str, list[Tally]]] = [{}, {}, {}]
    corrections = {shots: Counter[str]() for shots in CORRECTED}
    met = []
    start = time.perf_counter()
    for seed in range(args.draws):
        draw = Draw(photos, seed)
        for tallies, teach in zip(parts, (by_bursts, by_yes, by_folder), strict=True):
            for name, tally in teach(draw).items():
                tallies.setdefault(name, []).append(tally)
        for shots, pool in corrections.items():
            pool.update(by_correcting(draw, shots))
        met.append(as_met(draw))
        seconds = time.perf_counter() - start
        print(f"draw {seed + 1} of {args.draws} done after {seconds:.0f} s", flush=True)
    results = [*show_memories(parts), *show_corrections(corrections), show_met(met)]
    made = record(
        [cbcl, np, onnxruntime, PIL],
        results,
        about=args.about,
        backbone=f"{photos.backbone.name} {photos.backbone.fingerprint}",
        protocol={
            "things": photos.things,
            "left_out": args.leave_out,
            "seeds": args.draws,
            "views": VIEWS,
            "folder": FOLDER,
            "frames": [FRAMES, MANY_FRAMES],
            "shift": SHIFT,
            "presses": PRESSES,
            "asked": [MAX_ASKED, MAX_MET],
            "strangers": STRANGERS,
            "max_corrections": MAX_CORRECTIONS,
        },
    )
    with RECORDS.open("a") as file:
        file.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
