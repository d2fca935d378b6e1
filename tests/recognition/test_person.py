"""Teaching as people do it: more of the same makes no answer worse, and what is taught is known.

`study/benchmarks/person.py` measures the same on a folder of photos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image
from support.nearest_head import NEAREST
from support.photos import NAMES, encoded, photo, view

from cbcl import Recognizer
from cbcl.vision.decoding import Pixels
from cbcl.vision.extraction import EmbeddedPicture

STRANGERS = ("colorwheel", "hubble_deep_field", "immunohistochemistry", "retina")
VIEWS = 3  # that each thing is taught with
ASKED = 25  # other views of each thing
FRAMES = 12  # of each view in a burst: more than 30 of a thing
MANY_FRAMES = 40  # of each view of the thing that is taught most
PRESSES = 12  # of "yes"
MAX_LOSS = 0.02  # of the share of other views that are answered right
MAX_ACCEPTED = 0.05  # more strangers that are given a name, as a share of them
MAX_CLAIM = 0.05  # of the self-test beyond that of a memory of views

Embedded = list[EmbeddedPicture]


class Pictures(NamedTuple):
    """Pictures of each thing, embedded, and of things that nobody teaches."""

    views: dict[str, Embedded]  # taught
    frames: dict[str, list[Embedded]]  # of each view, moved by a few pixels
    presses: dict[str, Embedded]  # of the last view, moved by a pixel
    others: dict[str, Embedded]  # views to ask about
    strangers: Embedded


class Outcome(NamedTuple):
    """Shares of other views answered right, and of strangers called unknown."""

    right: float
    found: float


def views(name: str, count: int, seed: int = 0) -> list[Pixels]:
    """Return views that differ as photos of a thing do: parts of parts of a photograph."""
    rng = np.random.default_rng([seed, *name.encode()])
    return [view(Image.fromarray(view(photo(name), rng)), rng) for _ in range(count)]


def frame(pixels: Pixels, shift: int, rng: np.random.Generator) -> bytes:
    """Return what a camera sees a moment later: moved, and a little lighter or darker."""
    side = len(pixels) - 2 * shift
    left, top = rng.integers(0, 2 * shift, size=2, endpoint=True)
    part = pixels[top : top + side, left : left + side] * rng.uniform(0.97, 1.03)
    lighter: Pixels = np.clip(part, 0, 255).astype(np.uint8)
    return encoded(lighter, quality=92)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    rng = np.random.default_rng(0)
    taught = {name: views(name, VIEWS) for name in NAMES}
    counts = {name: MANY_FRAMES if name == NAMES[0] else FRAMES for name in NAMES}
    with Recognizer(tmp_path_factory.mktemp("look") / "memory.cbcl") as recognizer:
        look = recognizer.look
        return Pictures(
            {name: look(taught[name]) for name in NAMES},
            {
                name: [
                    look([frame(pixels, 4, rng) for _ in range(counts[name])])
                    for pixels in taught[name]
                ]
                for name in NAMES
            },
            {
                name: look([frame(taught[name][-1], 1, rng) for _ in range(PRESSES)])
                for name in NAMES
            },
            {name: look(views(name, ASKED, seed=1)) for name in NAMES},
            look([pixels for name in STRANGERS for pixels in views(name, 5)]),
        )


@pytest.fixture(scope="module", params=["discriminant", NEAREST.name])
def head(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def recognizer(tmp_path: Path, head: str) -> Iterator[Recognizer]:
    with Recognizer(tmp_path / "memory.cbcl", head=head) as recognizer:
        yield recognizer


def snap(recognizer: Recognizer, pictures: Pictures) -> None:
    for name, taught in pictures.views.items():
        for picture in taught:
            recognizer.learn(name, picture)


def hold_the_button(recognizer: Recognizer, pictures: Pictures) -> None:
    for name, bursts in pictures.frames.items():
        for frames in bursts:
            recognizer.learn(name, frames[:FRAMES])


def teach_one_thing_most(recognizer: Recognizer, pictures: Pictures) -> None:
    snap(recognizer, pictures)
    for frames in pictures.frames[NAMES[0]]:
        recognizer.learn(NAMES[0], frames)


def say_yes_while_it_moves(recognizer: Recognizer, pictures: Pictures) -> None:
    snap(recognizer, pictures)
    for name, presses in pictures.presses.items():
        for picture in presses:
            recognizer.learn(name, picture)


def say_yes_to_one_picture(recognizer: Recognizer, pictures: Pictures) -> None:
    snap(recognizer, pictures)
    for name, taught in pictures.views.items():
        for _ in range(PRESSES):
            recognizer.learn(name, taught[-1])


def learn_the_folder_twice(recognizer: Recognizer, pictures: Pictures) -> None:
    for _ in range(2):
        recognizer.learn_many(pictures.views)


def learn_the_folder_four_times(recognizer: Recognizer, pictures: Pictures) -> None:
    for _ in range(4):
        recognizer.learn_many(pictures.views)


def add_the_own_backup(recognizer: Recognizer, pictures: Pictures) -> None:
    snap(recognizer, pictures)
    backup = recognizer.path.with_name("backup.cbcl")
    recognizer.save_copy(backup)
    recognizer.adopt(backup)


Way = Callable[[Recognizer, Pictures], None]
OF_COPIES: list[Way] = [hold_the_button, teach_one_thing_most, say_yes_while_it_moves]
REPEATED: list[Way] = [
    say_yes_to_one_picture,
    learn_the_folder_twice,
    learn_the_folder_four_times,
    add_the_own_backup,
]


def by_name(way: Way) -> str:
    return way.__name__


def ask(recognizer: Recognizer, pictures: Pictures) -> Outcome:
    right = [
        answer.label == name
        for name, others in pictures.others.items()
        for answer in recognizer.recognize_many(others)
    ]
    found = [answer.label is None for answer in recognizer.recognize_many(pictures.strangers)]
    return Outcome(float(np.mean(right)), float(np.mean(found)))


@pytest.fixture(scope="module")
def snapped(
    pictures: Pictures, head: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Recognizer, Outcome]]:
    """The memory that others are compared with: each view taught once, by a single snap."""
    path = tmp_path_factory.mktemp("snapped") / "memory.cbcl"
    with Recognizer(path, head=head) as recognizer:
        snap(recognizer, pictures)
        yield recognizer, ask(recognizer, pictures)


def claim(recognizer: Recognizer) -> float:
    """Return the share right of the self-test; 0 where nothing could be tested."""
    result = recognizer.snapshot().examine()
    return result.right / max(1, result.asked)


@pytest.mark.parametrize("way", [*OF_COPIES, *REPEATED], ids=by_name)
def test_more_of_the_same_makes_no_answer_worse_and_the_scores_claim_no_more(
    way: Way, recognizer: Recognizer, pictures: Pictures, snapped: tuple[Recognizer, Outcome]
) -> None:
    way(recognizer, pictures)
    single, expected = snapped
    outcome = ask(recognizer, pictures)
    assert expected.right >= 0.75
    assert outcome.right >= expected.right - MAX_LOSS
    assert outcome.found >= expected.found - MAX_ACCEPTED
    assert claim(recognizer) <= claim(single) + MAX_CLAIM


@pytest.mark.parametrize("way", REPEATED, ids=by_name)
def test_a_picture_that_is_known_already_adds_nothing(
    way: Way, recognizer: Recognizer, pictures: Pictures
) -> None:
    way(recognizer, pictures)
    assert recognizer.labels() == dict.fromkeys(NAMES, VIEWS)


def test_the_same_file_learned_again_adds_nothing(recognizer: Recognizer, tmp_path: Path) -> None:
    for number, pixels in enumerate(views("coffee", 2)):
        (tmp_path / f"{number}.jpg").write_bytes(encoded(pixels))
    recognizer.learn("coffee", tmp_path)
    recognizer.learn("coffee", tmp_path)
    recognizer.learn("coffee", (tmp_path / "0.jpg").read_bytes())
    assert recognizer.labels() == {"coffee": 2}


def test_copies_of_a_single_view_say_nothing_about_others(
    recognizer: Recognizer, pictures: Pictures
) -> None:
    for name, presses in pictures.presses.items():
        recognizer.learn(name, presses)
    assert recognizer.snapshot().examine().right == 0


@pytest.mark.parametrize("count", [VIEWS, 20])
def test_a_corrected_picture_answers_as_taught(
    count: int, recognizer: Recognizer, pictures: Pictures
) -> None:
    recognizer.learn_many({name: others[:count] for name, others in pictures.others.items()})
    unlike = zip(NAMES, pictures.strangers[::5], strict=True)
    swapped = [(name, pictures.views[other][0]) for name, other in pairwise(NAMES)]
    corrected = [*unlike, *swapped]
    for name, picture in corrected:
        assert recognizer.recognize(picture).label != name
        recognizer.learn(name, picture)
        assert recognizer.recognize(picture).label == name
    answers = recognizer.recognize_many([picture for _, picture in corrected])
    assert [answer.label for answer in answers] == [name for name, _ in corrected]


@pytest.mark.parametrize("count", [VIEWS, 20])
def test_a_picture_taught_under_a_wrong_name_moves_to_its_own(
    count: int, recognizer: Recognizer, pictures: Pictures
) -> None:
    recognizer.learn_many({name: others[:count] for name, others in pictures.others.items()})
    before = recognizer.labels()  # some of these pictures are near-copies of others
    picture = pictures.views["chelsea"][0]
    recognizer.learn("coffee", picture)
    recognizer.learn("chelsea", picture)
    assert recognizer.recognize(picture).label == "chelsea"
    assert recognizer.labels() == {**before, "chelsea": before["chelsea"] + 1}
