"""Ten things, learned two at a time from three photos each, and then asked for among things never taught.

Run it with `make demo`. The photographs come inside scikit-image and scikit-learn; nothing is downloaded. The photos are
views made from them: other parts, turned, mirrored, lighter, blurred, compressed. Views of one photograph overlap, so
this shows what it is like to use cbcl and is no benchmark: those are in results/.

What it makes is left in a folder to look at: photos/, things.cbcl (the memory) and page.html (every answer, and why).
"""

from __future__ import annotations

import argparse
import io
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import mkdtemp
from typing import NamedTuple, TypeAlias

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter
from rich.console import Console
from rich.progress import track

from cbcl import Answer, Concepts, Recognizer

TAUGHT = {
    "cat": "skimage/data/chelsea.png",
    "coffee": "skimage/data/coffee.png",
    "motorcycle": "skimage/data/motorcycle_left.png",
    "astronaut": "skimage/data/astronaut.png",
    "flower": "sklearn/datasets/images/flower.jpg",
    "pagoda": "sklearn/datasets/images/china.jpg",
    "rocket": "skimage/data/rocket.jpg",
    "photographer": "skimage/data/camera.png",
    "coins": "skimage/data/coins.png",
    "gravel": "skimage/data/gravel.png",
}
NEVER_TAUGHT = {
    "brick wall": "skimage/data/brick.png",
    "moon": "skimage/data/moon.png",
    "retina": "skimage/data/retina.jpg",
}
ASKED_FROM = {"motorcycle": "skimage/data/motorcycle_right.png"}  # a stereo pair: the other eye's photograph

AT_A_TIME = 2
SHOTS = 3  # views to learn a thing from
ASKED = 6  # other views of it to ask about
SEED = 0

Answers: TypeAlias = dict[str, list[Answer]]  # to the views of each thing


class Score(NamedTuple):
    """How well things are told apart, once some more have been learned. All shares are of views asked about."""

    learned: str
    things: int
    right: float  # of the views of things taught; a refused one is not right
    first: float  # of the same, whose first guess is right, refused or not
    unknown: float  # of the views of things never taught
    refused: float  # of the views of things taught, which are called unknown
    centroids: int


TITLES = ("learned", "things", "right", "1st guess", "unknown", "refused", "centroids")
LEGEND = (
    "right, 1st guess, refused: of the views of things taught so far; a refused one is not right\n"
    f"unknown: of {ASKED * len(NEVER_TAUGHT)} views of things never taught: {', '.join(NEVER_TAUGHT)}"
)


def main(folder: Path | None = None) -> None:
    """Make the photos, learn, ask, forget, undo, and write the page: in `folder`/demo, or in a temporary folder."""
    place = (folder or Path(mkdtemp(prefix="cbcl-"))) / "demo"
    if place.exists():
        raise SystemExit(f"{place} is there already: give another folder.")
    screen = Console(stderr=True)

    names = [*TAUGHT, *NEVER_TAUGHT]
    for name in track(names, "making photos", console=screen, transient=True, disable=not screen.is_terminal):
        make_photos(name, place / "photos" / name)

    print(f"{len(TAUGHT)} things, {SHOTS} photos of each to learn from, {ASKED} other views of each to ask about")
    print(LEGEND)
    print(line_of(TITLES))
    scores = []
    increments = [[*TAUGHT][start : start + AT_A_TIME] for start in range(0, len(TAUGHT), AT_A_TIME)]
    with Recognizer(place / "things.cbcl") as things:
        for new in track(increments, "learning", console=screen, transient=True, disable=not screen.is_terminal):
            things.learn_many({name: place / "photos" / name / "taught-*.jpg" for name in new})
            answers = ask(things, [*things.labels(), *NEVER_TAUGHT], place / "photos")
            scores.append(score(new, answers, things.as_estimator().n_centroids_))
            print(line_of(cells_of(scores[-1])))
        before = things.as_estimator().concepts_
        last = [*TAUGHT][-1]
        things.forget(last)
        after = things.as_estimator().concepts_
        refused = sum(answer.label is None for answer in ask(things, [last], place / "photos")[last])
        print(f"forgot {last}: {refused} of its {ASKED} views are unknown now;", end=" ")
        print(f"the other {len(after)} things are unchanged, bit for bit: {all_same(after, before)}")
        things.undo()
        print(f"took that back: all is as it was, bit for bit: {all_same(before, things.as_estimator().concepts_)}")

    page = place / "page.html"
    page.write_text(page_of(scores, answers, place / "photos"), encoding="utf-8")
    print(f"photos and memory: {place}")
    print(f"every answer, and why: {page}")


def make_photos(name: str, folder: Path) -> None:
    """Write the views of one thing as a camera would: taught-1.jpg, ..., asked-1.jpg, ..."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng([SEED, *name.encode()])
    to_teach = photograph((TAUGHT | NEVER_TAUGHT)[name])
    to_ask = photograph(ASKED_FROM[name]) if name in ASKED_FROM else to_teach
    for number in range(SHOTS):
        save_view(to_teach, rng, folder / f"taught-{number + 1}.jpg")
    for number in range(ASKED):
        save_view(to_ask, rng, folder / f"asked-{number + 1}.jpg")


def photograph(path: str) -> Image.Image:
    """A photograph that lies in an installed package, at most 640 pixels a side."""
    package, *rest = path.split("/")
    image = Image.open(io.BytesIO(files(package).joinpath(*rest).read_bytes())).convert("RGB")
    image.thumbnail((640, 640), Image.Resampling.LANCZOS)
    return image


def save_view(image: Image.Image, rng: np.random.Generator, path: Path) -> None:
    """Another photo of the same: 60 to 90 % of it, turned, seen from the side, in other light, not quite sharp."""
    size = np.array(image.size)
    angle = np.radians(rng.uniform(-12, 12))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * size / 2 * rng.uniform(0.6, 0.9)  # (4, 2)
    corners = corners * rng.uniform(0.92, 1.08, (4, 2)) @ turn
    corners *= min(1.0, *(size / np.ptp(corners, axis=0)))  # so that all four can lie inside
    corners += rng.random(2) * (size - np.ptp(corners, axis=0)) - corners.min(axis=0)
    if rng.random() < 0.5:
        corners = corners[::-1]  # mirrored
    width, height = (size * rng.uniform(200, 400) / size.max()).round().astype(int).tolist()
    view = image.transform(
        (width, height), Image.Transform.QUAD, corners.ravel().tolist(), Image.Resampling.BICUBIC
    )
    view = ImageEnhance.Brightness(view).enhance(rng.uniform(0.6, 1.4))
    view = ImageEnhance.Contrast(view).enhance(rng.uniform(0.75, 1.25))
    view = ImageEnhance.Color(view).enhance(rng.uniform(0.6, 1.3))
    view = view.filter(ImageFilter.GaussianBlur(rng.uniform(0, 1.5)))
    view.save(path, quality=int(rng.integers(35, 91)))


def ask(things: Recognizer, names: Iterable[str], photos: Path) -> Answers:
    return {name: [things.recognize(path) for path in sorted((photos / name).glob("asked-*"))] for name in names}


def score(learned: Sequence[str], answers: Answers, centroids: int) -> Score:
    known = [(name, answer) for name, some in answers.items() if name in TAUGHT for answer in some]
    never = [answer for name, some in answers.items() if name in NEVER_TAUGHT for answer in some]
    return Score(
        learned=", ".join(learned),
        things=len(answers) - len(NEVER_TAUGHT),
        right=float(np.mean([answer.label == name for name, answer in known])),
        first=float(np.mean([answer.ranking[0].label == name for name, answer in known])),
        unknown=float(np.mean([answer.label is None for answer in never])),
        refused=float(np.mean([answer.label is None for _, answer in known])),
        centroids=centroids,
    )


def cells_of(row: Score) -> list[str]:
    return [f"{cell:.1%}" if isinstance(cell, float) else str(cell) for cell in row]


def line_of(cells: Sequence[str]) -> str:
    return f"{cells[0]:<20}" + "".join(f"  {cell:>{len(title)}}" for cell, title in zip(cells[1:], TITLES[1:]))


def all_same(some: dict[str, Concepts], others: dict[str, Concepts]) -> bool:
    """Whether every bit of some concepts is the same among others."""
    return all(
        concepts.centroids.tobytes() == others[name].centroids.tobytes()
        and concepts.counts.tobytes() == others[name].counts.tobytes()
        for name, concepts in some.items()
    )
