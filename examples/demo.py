"""Learn ten things, two at a time, from three photos each; then ask about them and about others.

Run it with `make demo`. The photographs come inside scikit-image and scikit-learn: nothing is
downloaded. The photos are views made from them: other parts, turned, mirrored, lighter, blurred,
compressed. Views of one photograph overlap, so this shows what it is like to use cbcl; it is not a
benchmark: for those, see study/results/.

It leaves a folder to look at: photos/, things.cbcl (the memory) and page.html (every answer, and
why).
"""

from __future__ import annotations

import argparse
import io
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from tempfile import mkdtemp
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter
from rich.console import Console
from rich.progress import track

from cbcl import Answer, Recognizer
from cbcl.recognition.answer import Reason

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
# A stereo pair: the other eye's photograph.
ASKED_FROM = {"motorcycle": "skimage/data/motorcycle_right.png"}

AT_A_TIME = 2
SHOTS = 3  # views to learn a thing from
ASKED = 6  # other views of it to ask about
SEED = 0

Step = TypeVar("Step")
Answers: TypeAlias = dict[str, list[Answer]]  # about the views of each thing


class Score(NamedTuple):
    """Accuracy after some more things have been learned; shares of the views asked about."""

    learned: str
    things: int
    right: float  # share of views of taught things answered right; refused ones are not right
    first: float  # share of the same views with a right first guess, refused or not
    unknown: float  # share of views of things never taught that are called unknown
    refused: float  # share of views of taught things that are called unknown
    photos: int  # photos learned; near-copies count once


TITLES = ("learned", "things", "right", "1st guess", "unknown", "refused", "photos")
WIDTHS = (-21, 6, 6, 9, 7, 7, 9)  # of the columns; the first is flush left
STRANGE_VIEWS = ASKED * len(NEVER_TAUGHT)
LEGEND = f"""\
{len(TAUGHT)} things, {SHOTS} photos of each to learn from, {ASKED} other views of each to ask about
right, 1st guess, refused: of the views of things taught so far; a refused view is not right
unknown: of {STRANGE_VIEWS} views of things never taught: {", ".join(NEVER_TAUGHT)}"""


def main(folder: Path | None = None) -> None:
    """Make the photos, learn, ask, forget, undo, and write the page, all in `folder`/demo.

    Without a folder, a temporary one is made.
    """
    if find_spec("skimage") is None:
        raise SystemExit('the photographs are in scikit-image: pip install "cbcl[demo]"')
    place = (folder or Path(mkdtemp(prefix="cbcl-"))) / "demo"
    if place.exists():
        raise SystemExit(f"{place} is there already: give another folder.")
    photos = place / "photos"
    page = place / "page.html"
    for name in in_sight([*TAUGHT, *NEVER_TAUGHT], "making photos"):
        make_photos(name, photos / name)
    with Recognizer(place / "things.cbcl") as things:
        scores, answers = learn_and_ask(things, photos)
        forget_and_undo(things, photos)
    page.write_text(page_of(scores, answers, photos), encoding="utf-8")
    print(f"photos and memory: {place}")
    print(f"every answer, and why: {page}")


def learn_and_ask(things: Recognizer, photos: Path) -> tuple[list[Score], Answers]:
    """Learn a few things in each step and ask about all so far; return scores and last answers."""
    print(LEGEND)
    print(line_of(TITLES))
    scores: list[Score] = []
    answers: Answers = {}
    names = [*TAUGHT]
    for start in in_sight(range(0, len(names), AT_A_TIME), "learning"):
        new = names[start : start + AT_A_TIME]
        things.learn_many({name: sorted((photos / name).glob("taught-*")) for name in new})
        answers = ask(things, [*names[: start + AT_A_TIME], *NEVER_TAUGHT], photos)
        scores.append(score(new, answers, sum(things.labels().values())))
        print(line_of(cells_of(scores[-1])))
    return scores, answers


def forget_and_undo(things: Recognizer, photos: Path) -> None:
    """Forget the thing learned last, check that the others did not change, and undo that."""
    name = [*TAUGHT][-1]
    before = bits_of(things)
    things.forget(name)
    unknown = sum(answer.label is None for answer in ask(things, [name], photos)[name])
    others = {other: bits for other, bits in before.items() if other != name}
    same = bits_of(things) == others
    print(f"forgot {name}: {unknown} of its {ASKED} views are unknown;", end=" ")
    print(f"every bit of the other {len(others)} as before: {same}")
    things.undo()
    print(f"undid that: every bit of all {len(before)} as before: {bits_of(things) == before}")


def in_sight(steps: Sequence[Step], doing: str) -> Iterable[Step]:
    """Show a progress bar for these steps, on a terminal."""
    screen = Console()
    return track(steps, doing, console=screen, transient=True, disable=not screen.is_terminal)


def make_photos(name: str, folder: Path) -> None:
    """Write the views of one thing as a camera would: taught-1.jpg, ..., asked-1.jpg, ..."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng([SEED, *name.encode()])
    to_teach = photograph((TAUGHT | NEVER_TAUGHT)[name])
    to_ask = photograph(ASKED_FROM[name]) if name in ASKED_FROM else to_teach
    for number in range(1, SHOTS + 1):
        save_view(to_teach, rng, folder / f"taught-{number}.jpg")
    for number in range(1, ASKED + 1):
        save_view(to_ask, rng, folder / f"asked-{number}.jpg")


def photograph(path: str) -> Image.Image:
    """Read a photograph from an installed package, at most 640 pixels a side."""
    package, *rest = path.split("/")
    image = Image.open(io.BytesIO(files(package).joinpath(*rest).read_bytes())).convert("RGB")
    image.thumbnail((640, 640), Image.Resampling.LANCZOS)
    return image


def save_view(image: Image.Image, rng: np.random.Generator, path: Path) -> None:
    """Save another view: 60 to 90 %, turned, from the side, in other light, not quite sharp."""
    size = np.array(image.size)
    angle = np.radians(rng.uniform(-12, 12))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * size / 2  # (4, 2)
    corners = corners * rng.uniform(0.6, 0.9)
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
    return {
        name: [things.recognize(path) for path in sorted((photos / name).glob("asked-*"))]
        for name in names
    }


def score(learned: Sequence[str], answers: Answers, photos: int) -> Score:
    pairs = [(name, answer) for name, answers_to in answers.items() for answer in answers_to]
    known = [(name, answer) for name, answer in pairs if name in TAUGHT]
    never = [answer for name, answer in pairs if name in NEVER_TAUGHT]
    return Score(
        learned=", ".join(learned),
        things=len(answers) - len(NEVER_TAUGHT),
        right=float(np.mean([answer.label == name for name, answer in known])),
        first=float(np.mean([answer.ranking[0].label == name for name, answer in known])),
        unknown=float(np.mean([answer.label is None for answer in never])),
        refused=float(np.mean([answer.label is None for _, answer in known])),
        photos=photos,
    )


def cells_of(row: Score) -> list[str]:
    return [f"{cell:.1%}" if isinstance(cell, float) else str(cell) for cell in row]


def line_of(cells: Sequence[str]) -> str:
    return "  ".join(
        f"{cell:{'<' if width < 0 else '>'}{abs(width)}}"
        for cell, width in zip(cells, WIDTHS, strict=True)
    )


def bits_of(things: Recognizer) -> dict[str, tuple[bytes, bytes]]:
    """All that is known of each thing: the mean of its photos, and their number."""
    return {
        name: (known.centroids.tobytes(), known.counts.tobytes())
        for name, known in things.snapshot().concepts().items()
    }


def page_of(scores: Sequence[Score], answers: Answers, photos: Path) -> str:
    """Fill in page.html: one page with every answer and its evidence, complete in itself."""
    last = scores[-1]
    views_taught = ASKED * last.things
    numbers = {
        f"of {views_taught} views of things taught were given their name": last.right,
        "of them had it as the first guess": last.first,
        "of them were called unknown": last.refused,
        f"of {STRANGE_VIEWS} views of things never taught were called unknown": last.unknown,
    }
    return Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8")).substitute(
        things=last.things,
        shots=SHOTS,
        at_a_time=AT_A_TIME,
        asked=ASKED,
        never=escape(", ".join(NEVER_TAUGHT)),
        seed=SEED,
        numbers="\n".join(
            f"<div><dt>{escape(what)}</dt><dd>{share:.1%}</dd></div>"
            for what, share in numbers.items()
        ),
        titles="".join(f'<th scope="col">{escape(title)}</th>' for title in TITLES),
        steps="\n".join(step_of(row) for row in scores),
        contents="\n".join(entry_of(*item) for item in answers.items()),
        sections="\n".join(section_of(*item, photos / item[0]) for item in answers.items()),
    )


def step_of(row: Score) -> str:
    learned, *cells = map(escape, cells_of(row))
    return f'<tr><th scope="row">{learned}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def entry_of(name: str, answers: Sequence[Answer]) -> str:
    words = f"{escape(name)} <span>{tally_of(name, answers)}</span>"
    return f'<li class="{kind_of(name)}"><a href="#{anchor_of(name)}">{words}</a></li>'


def section_of(name: str, answers: Sequence[Answer], photos: Path) -> str:
    """All answers about one thing, beside what it was taught from."""
    taught = "".join(
        picture_of(path, f"{name}, taught") for path in sorted(photos.glob("taught-*"))
    )
    shown = (
        f'<figure class="taught"><figcaption>taught from</figcaption>{taught}</figure>'
        if name in TAUGHT
        else ""
    )
    wanted = "called by their name" if name in TAUGHT else "called unknown, as they should be"
    cards = "\n".join(card_of(name, answer) for answer in answers)
    return f"""<section id="{anchor_of(name)}" class="{kind_of(name)}">
<div class="top"><div><h2>{escape(name)}{"" if name in TAUGHT else ", never taught"}</h2>
<p>{tally_of(name, answers)} {wanted}</p></div>{shown}</div>
<ul class="answers">
{cards}
</ul>
</section>"""


def card_of(name: str, answer: Answer) -> str:
    """One view, what was said about it, and why."""
    kind, verdict = verdict_of(name, answer)
    guesses = "\n".join(
        f'<tr><th scope="row">{escape(guess.label)}</th>'
        f"<td>{guess.confidence:.1%}</td><td>{guess.distance:.1f}</td></tr>"
        for guess in answer.ranking[:3]
    )
    closest = "" if answer.label else f"; closest: {answer.ranking[0].label}"
    sure = f"{answer.confidence:.1%} sure{closest}"
    ranking_titles = "".join(f'<th scope="col">{name}</th>' for name in ("ranking", "sure", "away"))
    strangeness = "too strange" if answer.strangeness > 1 else "near enough"
    width = min(100.0, 40 * answer.strangeness)
    return f"""<li class="card {kind}">
<div class="picture">{picture_of(Path(answer.picture), f"{name}, a view asked about")}</div>
<div class="said">
<p class="verdict">{escape(verdict)}</p>
<p class="label">{escape(answer.label or "unknown")}</p>
<p class="sure">{escape(sure)}</p>
<table class="ranking">
<thead><tr>{ranking_titles}</tr></thead>
<tbody>
{guesses}
</tbody>
</table>
</div>
<div class="why">
<p>strangeness {answer.strangeness:.2f}: {strangeness}</p>
<div class="strange"><i style="width: {width:.1f}%"></i><b></b></div>
{"".join(map(reason_of, answer.evidence))}
</div>
</li>"""


def reason_of(reason: Reason) -> str:
    thumbnails = "".join(
        image_of(example.jpeg, f"{reason.label}, as learned") for example in reason.examples
    )
    return f"""<div class="reason"><div class="thumbs">{thumbnails}</div>
<p>nearest: <strong>{escape(reason.label)}</strong><br>
{reason.pictures} photos, distance {reason.distance:.1f}</p></div>"""


def verdict_of(name: str, answer: Answer) -> tuple[str, str]:
    """Mark an answer: its class on the page, and in words."""
    if answer.label == (name if name in TAUGHT else None):
        return "right", "✓ right"
    if answer.label is not None:
        return "wrong", "✗ wrong"
    guessed = "right" if answer.ranking[0].label == name else "wrong"
    return "refused", f"? refused, guess {guessed}"


def tally_of(name: str, answers: Sequence[Answer]) -> str:
    right = sum(verdict_of(name, answer)[0] == "right" for answer in answers)
    return f"{right} of {len(answers)}"


def kind_of(name: str) -> str:
    return "known" if name in TAUGHT else "never"


def anchor_of(name: str) -> str:
    return escape(name.replace(" ", "-"))


def picture_of(path: Path, words: str) -> str:
    """Return a photo as an element, small enough to be written into a page."""
    small = Image.open(path)
    file = io.BytesIO()
    small.thumbnail((272, 272), Image.Resampling.LANCZOS)
    small.save(file, "JPEG", quality=70)
    return image_of(file.getvalue(), words)


def image_of(jpeg: bytes, words: str) -> str:
    return f'<img src="data:image/jpeg;base64,{b64encode(jpeg).decode()}" alt="{escape(words)}">'


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where to work (default: a new temporary folder)"
    )
    main(parser.parse_args().folder)
