"""Seconds of ordinary use, here and in another checkout.

    python study/benchmarks/ordinary_use.py OTHER --work "one step of learning, 20 labels"

Claim: no limit on hostile input makes recognizing 200 photos or teaching 5 slower. The photos are
JPEGs of 12 megapixels made from scikit-image's pictures, and no vector is cached. Opening a memory
and a step of learning are timed by themselves, with vectors in place of photos. The checkouts take
turns, in a process each; a ratio is here to there, in medians of the turns, by the clock and by the
processor's time, which a busy machine falsifies less. Both need their kernel compiled, as `pip
install --editable` does it. The last line is a JSON record of the run.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import PIL
from PIL.Image import Resampling

import cbcl
from cbcl import Recognizer, load_backbone
from cbcl.method.centroids.kernel import KERNEL, NUMPY

HERE = Path(__file__).resolve().parents[2]
PHOTOS, TAUGHT, LABELS = 200, 5, 10
SIZE = (4000, 3000)
FEATURES, EXAMPLES = 1280, 5  # numbers of a vector, vectors of a label
TURNS = {"recognize 200 photos": 3, "teach 5 photos": 11}
MORE_TURNS = 21


def make_photos(folder: Path) -> None:
    """Write views of pictures: other parts of them, at another scale."""
    from contest import photographs  # not in a worker, which may be of an older checkout

    wholes = photographs()
    rng = np.random.default_rng(0)
    for number in range(PHOTOS):
        whole = wholes[number % len(wholes)]
        sides = [round(side * rng.uniform(0.6, 0.9)) for side in whole.size]
        left, top = (int(rng.integers(a - b)) for a, b in zip(whole.size, sides, strict=True))
        view = whole.crop((left, top, left + sides[0], top + sides[1]))
        view.resize(SIZE, Resampling.BILINEAR).save(folder / f"{number:03}.jpg", quality=90)


@contextmanager
def recognize_photos(folder: Path, place: Path) -> Iterator[Callable[[], object]]:
    files = sorted(folder.glob("*.jpg"))
    with Recognizer(place / "things.cbcl", cache=False) as recognizer:
        recognizer.learn_many({f"label {n}": files[n::20][:3] for n in range(LABELS)})
        yield lambda: recognizer.recognize_many(files)


@contextmanager
def teach_photos(folder: Path, place: Path) -> Iterator[Callable[[], object]]:
    files = sorted(folder.glob("*.jpg"))
    fives = iter(range(0, PHOTOS, TAUGHT))
    with Recognizer(place / "things.cbcl", cache=False) as recognizer:
        recognizer.learn_many({f"label {n}": files[n::20][:3] for n in range(LABELS)})

        def teach() -> None:
            first = next(fives)
            recognizer.learn(f"label {first % LABELS}", files[first : first + TAUGHT])

        yield teach


def taught(path: Path, labels: int) -> Recognizer:
    """Return a memory of that many labels, whose pictures are vectors."""
    rng = np.random.default_rng(0)
    backbone = load_backbone(lambda rows: [*rows], name="vectors")
    recognizer = Recognizer(path, backbone)
    if not path.exists():
        centres = np.maximum(rng.normal(size=(labels, 1, FEATURES)), 0.0)
        rows = centres + 0.3 * rng.random((labels, EXAMPLES, FEATURES))
        recognizer.learn_many(
            {f"{n:05}": [*some.astype(np.float32)] for n, some in enumerate(rows)}
        )
    return recognizer


@contextmanager
def open_memory(labels: int, place: Path, *, ask: bool) -> Iterator[Callable[[], object]]:
    path = place / "things.cbcl"
    taught(path, labels).close()
    query = np.random.default_rng(1).random(FEATURES, dtype=np.float32)

    def open_it() -> None:
        with taught(path, labels) as recognizer:
            assert len(recognizer.labels()) == labels
            if ask:
                recognizer.recognize(query)

    yield open_it


@contextmanager
def learn_vectors(labels: int, place: Path) -> Iterator[Callable[[], object]]:
    rng = np.random.default_rng(1)
    with taught(place / "things.cbcl", labels) as recognizer:
        yield lambda: recognizer.learn("00000", [*rng.random((1, FEATURES), dtype=np.float32)])


WORKS: dict[str, Callable[[Path, Path], AbstractContextManager[Callable[[], object]]]] = {
    "recognize 200 photos": recognize_photos,
    "teach 5 photos": teach_photos,
    "open a memory of 20 labels": lambda _, place: open_memory(20, place, ask=False),
    "open a memory of 300 labels": lambda _, place: open_memory(300, place, ask=False),
    "open and ask, 20 labels": lambda _, place: open_memory(20, place, ask=True),
    "open and ask, 300 labels": lambda _, place: open_memory(300, place, ask=True),
    "one step of learning, 20 labels": lambda _, place: learn_vectors(20, place),
    "one step of learning, 300 labels": lambda _, place: learn_vectors(300, place),
}


def work(name: str, folder: Path) -> None:
    """Prepare, then do the work once for each line of the standard input, and print its times."""
    if KERNEL is NUMPY:
        sys.exit(f"{cbcl.__file__}: its kernel is not compiled")
    with tempfile.TemporaryDirectory() as place, WORKS[name](folder, Path(place)) as call:
        call()
        print("ready", flush=True)
        for _ in sys.stdin:
            start, processor = time.perf_counter(), time.process_time()
            call()
            seconds = time.perf_counter() - start, time.process_time() - processor
            print(*seconds, flush=True)


def compare(name: str, folder: Path, checkouts: dict[str, Path]) -> dict[str, object]:
    """Return the median seconds of each checkout, and the ratios of the first to the second."""
    from contest import Worker  # likewise

    workers = [Worker(__file__, path, name, str(folder)) for path in checkouts.values()]
    times: list[list[list[float]]] = [[] for _ in workers]
    for _ in range(TURNS.get(name, MORE_TURNS)):
        for mine, worker in zip(times, workers, strict=True):
            mine.append([float(number) for number in worker.take_turn().split()])
    for worker in workers:
        worker.close()
    medians = [[statistics.median(column) for column in zip(*mine, strict=True)] for mine in times]
    here, there = medians
    ratios = [ours / theirs for ours, theirs in zip(here, there, strict=True)]
    print(
        f"{name:<34} {ratios[0]:5.2f} x by the clock, {ratios[1]:5.2f} x by the processor"
        f"   here {1e3 * here[1]:.1f} ms, there {1e3 * there[1]:.1f} ms of the processor",
        flush=True,
    )
    return {"work": name, "clock": ratios[0], "processor": ratios[1], "seconds": medians}


def main() -> None:
    from contest import parser_of, record

    parser = parser_of(__doc__)
    parser.add_argument("other", type=Path, metavar="OTHER", help="folder of another checkout")
    parser.add_argument("--work", action="append", choices=WORKS, help="measure nothing else")
    args = parser.parse_args()
    checkouts = {"here": HERE, "there": args.other.resolve()}
    with tempfile.TemporaryDirectory() as folder:
        make_photos(Path(folder))
        results = [compare(name, Path(folder), checkouts) for name in args.work or WORKS]
    print(json.dumps(record([cbcl, np, PIL], results, data=f"{PHOTOS} views, seed 0")))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
