"""Pictures to vectors: in order, the same however they are divided up, and nothing twice."""

from __future__ import annotations

import io
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier, Lock, Thread
from time import sleep
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from PIL import Image
from support.networks import load_as_network
from support.photos import NAMES, encoded, folders, photo, views

from cbcl import load_backbone
from cbcl.errors import PictureError
from cbcl.machine import cores
from cbcl.vision import decoding, extraction
from cbcl.vision import vector_cache as cache_module
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.decoding import Floats
from cbcl.vision.extraction import EmbeddedPicture, embed_pictures, extract
from cbcl.vision.vector_cache import VectorCache

INT8 = "efficientnet-lite0-int8"


@dataclass
class Counting:
    """A backbone that counts what it is asked: the mean colour of a picture."""

    batch: int = 1
    seen: list[int] = field(default_factory=list)

    name: ClassVar[str] = "counting"
    fingerprint: ClassVar[str] = "00" * 16
    at_least: ClassVar[int] = 8
    threads: ClassVar[bool] = True
    state: ClassVar[bytes] = b""
    description: ClassVar[dict[str, Any]] = {}

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        self.seen.append(len(things))
        return np.array(
            [np.asarray(picture).mean(axis=(0, 1)) for picture in things], dtype=np.float32
        )


def flat(colour: int) -> bytes:
    return encoded(Image.new("RGB", (16, 16), (colour, colour, colour)), "PNG")


def values(found: Sequence[Any]) -> list[Any]:
    return [None if isinstance(result, PictureError) else float(result[0]) for result in found]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[VectorCache]:
    with closing(VectorCache("00" * 16, tmp_path / "vectors.sqlite")) as cache:
        yield cache


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_results_are_in_order_and_a_broken_picture_takes_no_other_with_it(batch: int) -> None:
    sources = [flat(0), b"broken", flat(2), flat(3), b"", flat(5), flat(6)]
    assert values(extract(Counting(batch), sources)) == [0, None, 2, 3, None, 5, 6]


def test_progress_is_told_one_by_one() -> None:
    told: list[tuple[int, ...]] = []
    extract(Counting(), [flat(n) for n in range(5)], progress=lambda *done: told.append(done))
    assert told == [(n, 5) for n in range(1, 6)]


def test_a_picture_seen_before_is_not_looked_at_again(kept: VectorCache, tmp_path: Path) -> None:
    photos = folders(tmp_path / "photos", NAMES[:2])
    files = sorted(photos.rglob("*.jpg"))
    first, again, renamed = (Counting() for _ in range(3))
    once = extract(first, files, cache=kept)
    twice = extract(again, files, cache=kept)
    assert (len(first.seen), len(again.seen)) == (6, 0)
    assert np.array(once).tobytes() == np.array(twice).tobytes()
    files[0].rename(files[0].with_name("other.jpg"))
    extract(renamed, sorted(photos.rglob("*.jpg")), cache=kept)
    assert renamed.seen == []
    with closing(VectorCache("11" * 16, kept.path)) as other_backbone:
        assert other_backbone.get(b"x") is None
        extract(renamed, sorted(photos.rglob("*.jpg")), cache=other_backbone)
    assert len(renamed.seen) == 6


def test_what_was_computed_before_an_interruption_is_kept(kept: VectorCache) -> None:
    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    sources = [flat(n) for n in range(6)]
    with pytest.raises(KeyboardInterrupt):
        extract(Counting(), sources, cache=kept, progress=stop)
    counting = Counting()
    extract(counting, sources[:3], cache=kept)
    assert counting.seen == []


def test_a_cache_that_cannot_be_used_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = VectorCache("00" * 16, tmp_path / "file" / "vectors.sqlite")
    assert values(extract(Counting(), [flat(7)], cache=broken)) == [7]
    (tmp_path / "vectors.sqlite").write_bytes(b"no database" * 1000)
    mended = VectorCache("00" * 16, tmp_path / "vectors.sqlite")
    assert values(extract(Counting(), [flat(7)], cache=mended)) == [7]
    counting = Counting()
    assert values(extract(counting, [flat(7)], cache=mended)) == [7]
    assert counting.seen == []
    mended.close()


def test_a_vector_that_was_damaged_is_computed_again(kept: VectorCache) -> None:
    extract(Counting(), [flat(7)], cache=kept)
    with closing(sqlite3.connect(kept.path, isolation_level=None)) as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(12)")
    counting = Counting()
    assert values(extract(counting, [flat(7)], cache=kept)) == [7]
    assert counting.seen == [1]


def test_the_cache_does_not_grow_without_end(
    kept: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "MAX_BYTES", 500_000)
    for number in range(40):
        kept.put([(bytes([number, row]), np.zeros(1280, np.float32)) for row in range(10)])
    kept.close()
    assert kept.path.stat().st_size < 700_000


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize(
    "name",
    ["efficientnet-lite0", "efficientnet-lite0@2views", f"{INT8}@2views+efficientnet-lite0"],
)
def test_threads_and_batches_change_no_bit_of_a_vector(
    name: str, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "cores", lambda: cores)
    backbone = cast(Backbone, load_backbone(name))
    pictures = [Image.fromarray(pixels) for name in NAMES for pixels in views(name, 2)]
    one_by_one = np.concatenate([backbone.vectors([picture]) for picture in pictures])
    assert backbone.vectors(pictures).tobytes() == one_by_one.tobytes()
    assert np.array(extract(backbone, pictures)).tobytes() == one_by_one.tobytes()
    alone = [vector for picture in pictures for vector in extract(backbone, [picture])]
    assert np.array(alone).tobytes() == one_by_one.tobytes()


def test_a_batch_is_embedded_before_it_takes_too_much_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extraction, "MAX_DECODED_PIXELS", 600)
    counting = Counting(batch=8)
    sources = [flat(n) for n in range(8)]  # of 256 pixels each
    assert values(extract(counting, sources)) == [*range(8)]
    assert counting.seen == [3, 3, 2]


def test_there_are_never_more_pictures_being_decoded_than_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alive = 0
    most = 0
    lock = Lock()

    class Slow(Counting):
        def vectors(self, things: Sequence[Image.Image]) -> Floats:
            nonlocal alive
            sleep(0.002)
            with lock:
                alive -= 1
            return super().vectors(things)

    def counted(source: Any, name: str, at_least: int) -> Image.Image:
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        return decoding.load(source, name, at_least)

    monkeypatch.setattr(extraction, "load", counted)
    sources = [flat(n) for n in range(20)]
    callers = [Thread(target=extract, args=(Slow(), sources)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert 0 < most <= cores()


def test_functions_that_take_no_pictures_run_on_as_many_threads_as_call_them() -> None:
    calls = cores() + 2
    barrier = Barrier(calls, timeout=30)  # which breaks unless all are in the function at once

    def lengths(words: Sequence[str]) -> list[list[float]]:
        barrier.wait()
        return [[len(word)] for word in words]

    backbone = cast(Backbone, load_backbone(lengths, name="lengths"))
    words = ["x" * number for number in range(calls)]
    with ThreadPoolExecutor(calls) as executor:
        results = [*executor.map(lambda word: extract(backbone, [word]), words)]
    assert [values(result) for result in results] == [[float(number)] for number in range(calls)]


FORKED = """
import os, sys
from cbcl.machine import cores
from cbcl.vision.decoding_budget import BUDGET
from cbcl.vision.extraction import extract
from test_extraction import Counting, flat

for _ in range(cores()):  # as threads hold them that embed while the process forks
    BUDGET.slots.acquire()
child = os.fork()
if not child:
    extract(Counting(), [flat(3)])
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent() -> None:
    paths = os.pathsep.join(map(str, Path(__file__).parents[:2]))
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, env=environment, timeout=60, check=False)
    assert done.returncode == 7


def test_a_broken_picture_is_raised_at_once_if_that_is_asked_for() -> None:
    counting = Counting()
    with pytest.raises(PictureError, match="picture 2"):
        embed_pictures(counting, [flat(0), b"broken", *map(flat, range(200))], strict=True)
    assert len(counting.seen) < 200


def embedded(*given: Any, **options: Any) -> list[EmbeddedPicture]:
    """Pictures that can all be read."""
    pictures = embed_pictures(*given, **options)
    return [one for one in pictures if isinstance(one, EmbeddedPicture)]


@pytest.mark.parametrize("at_least", [8, 384])
def test_a_thumbnail_is_small_whatever_the_backbone_needs(
    at_least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Counting, "at_least", at_least)
    large = photo("astronaut").resize((600, 450))
    sources = [encoded(large), np.asarray(large), encoded(large.resize((60, 45)), "PNG")]
    pictures = embedded(Counting(), sources, thumbnails=range(3))
    sizes = [Image.open(io.BytesIO(picture.thumbnail())).size for picture in pictures]
    assert sizes == [(128, 96), (128, 96), (60, 45)]


def test_thumbnails_are_made_of_what_is_decoded_and_deferred_for_what_is_cached(
    kept: VectorCache,
) -> None:
    sources = [flat(n) for n in range(3)]
    extract(Counting(), sources[:2], cache=kept)
    counting = Counting()
    pictures = embedded(counting, sources, cache=kept, thumbnails=[0])
    assert counting.seen == [1]
    assert [bool(one.jpeg) for one in pictures] == [True, False, True]
    every = embedded(Counting(), sources, thumbnails=range(3))
    assert [one.thumbnail() for one in pictures] == [one.jpeg for one in every]
    assert not any(one.has_thumbnail for one in embedded(Counting(), sources, cache=kept))


def test_a_large_photo_gives_nearly_the_vector_of_its_full_decoding() -> None:
    lite0 = load_as_network("efficientnet-lite0")
    large = photo("astronaut").resize((4096, 4096), Image.Resampling.BICUBIC)
    (scaled,) = extract(lite0, [encoded(large, quality=92)])
    (full,) = lite0.vectors([large])
    assert not isinstance(scaled, PictureError)
    assert scaled @ full / np.linalg.norm(scaled) / np.linalg.norm(full) > 0.99
