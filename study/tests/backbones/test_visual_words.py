"""Visual words: the same for the same pictures, safe to store, similar for similar pictures."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from skimage import data
from threadpoolctl import threadpool_limits

from cbcl.errors import WeightsError
from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl_study.backbones import visual_words
from cbcl_study.backbones.visual_words import (
    STATE_HEADER,
    STATE_MAGIC,
    UnfittedWords,
    VisualWords,
    descriptors,
    nearest,
)


@cache
def photographs() -> list[Image.Image]:
    names = ("astronaut", "coffee", "chelsea", "rocket", "camera", "coins")
    return [Image.fromarray(getattr(data, name)()).convert("RGB") for name in names]


@cache
def fitted() -> VisualWords:
    return UnfittedWords(60).fit(photographs())


def state(codebook: NDArray[Any], version: int = 1) -> bytes:
    return (
        STATE_HEADER.pack(STATE_MAGIC, version, codebook.shape[1], len(codebook))
        + codebook.astype("<f4").tobytes()
    )


def test_they_are_a_backbone_and_what_becomes_one() -> None:
    unfitted: Fittable = UnfittedWords(60)
    backbone: Backbone = fitted()
    assert unfitted.name == backbone.name == "visual-words"
    assert unfitted.at_least == backbone.at_least == 384
    assert (backbone.batch, backbone.threads) == (1, True)
    assert len(bytes.fromhex(backbone.fingerprint)) == 16


def test_a_vector_has_one_share_a_word_and_length_one() -> None:
    vectors = fitted().vectors(photographs())
    assert vectors.shape == (6, len(fitted().codebook))
    assert vectors.dtype == np.float32
    assert (vectors >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_no_pictures_give_no_vectors() -> None:
    assert fitted().vectors([]).shape == (0, len(fitted().codebook))


def test_neither_batch_nor_threads_change_a_vector() -> None:
    together = fitted().vectors(photographs())
    for threads in (1, 2):
        with threadpool_limits(limits=threads), ThreadPoolExecutor(3) as executor:
            alone = list(
                executor.map(lambda picture: fitted().vectors([picture]), photographs() * 3)
            )
        np.testing.assert_array_equal(np.concatenate(alone), np.tile(together, (3, 1)))


@pytest.mark.parametrize("seed", [0, 1])
def test_threads_do_not_change_a_codebook(seed: int) -> None:
    states = set()
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            states.add(UnfittedWords(60, seed=seed).fit(photographs()).state)
    assert len(states) == 1


def test_another_seed_gives_other_words_and_another_fingerprint() -> None:
    other = UnfittedWords(60, seed=1).fit(photographs())
    assert other.state != fitted().state
    assert other.fingerprint != fitted().fingerprint


def test_the_nearest_word_is_found_exactly() -> None:
    found = descriptors(photographs()[0])[::50]
    differences = found[:, np.newaxis].astype(np.int64) - fitted().codebook.astype(np.int64)
    np.testing.assert_array_equal(
        nearest(found, fitted().codebook), (differences**2).sum(axis=2).argmin(axis=1)
    )


def test_descriptors_are_whole_numbers_small_enough_for_exact_sums() -> None:
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 256, (200, 300, 3), dtype=np.uint8))
    stripes = Image.fromarray(np.tile(np.repeat(np.array([0, 255], dtype=np.uint8), 4), (256, 32)))
    for picture in [*photographs(), noise, stripes]:
        found = descriptors(picture)
        assert found.dtype == np.float32
        assert found.shape[1] == 128
        np.testing.assert_array_equal(found, np.floor(found))
        assert found.min() >= 0
        assert found.max() <= visual_words.MAX_VALUE
        assert (
            2 * np.linalg.norm(found, axis=1).max() * visual_words.MAX_VALUE * np.sqrt(128) < 2**24
        )


@pytest.mark.parametrize("size", [(1, 1), (10, 300), (300, 10), (1, 5000), (7, 9), (640, 480)])
def test_a_picture_of_any_size_has_a_vector(size: tuple[int, int]) -> None:
    (vector,) = fitted().vectors([photographs()[1].resize(size)])
    assert np.linalg.norm(vector) == pytest.approx(1.0)


def test_words_tell_textures_apart_wherever_they_are() -> None:
    textures = [
        Image.fromarray(getattr(data, name)()) for name in ("brick", "gravel", "hubble_deep_field")
    ]
    halves = [texture.crop((left, 0, left + 256, 512)) for left in (0, 256) for texture in textures]
    vectors = UnfittedWords(100).fit(halves[:3]).vectors(halves)
    np.testing.assert_array_equal((vectors[3:] @ vectors[:3].T).argmax(axis=1), [0, 1, 2])


def test_a_brighter_picture_has_nearly_the_same_words() -> None:
    picture = photographs()[1]
    brighter = Image.fromarray((np.asarray(picture) // 2 + 100).astype(np.uint8))
    first, second, other = fitted().vectors([picture, brighter, photographs()[3]])
    assert first @ second > 0.95 > first @ other


def test_few_and_plain_pictures_give_fewer_words() -> None:
    assert len(UnfittedWords(10_000).fit(photographs()[:1]).codebook) < 1_000
    plain = UnfittedWords().fit([Image.new("RGB", (50, 50), "red")])
    assert len(plain.codebook) == 1
    np.testing.assert_array_equal(plain.vectors(photographs()[:2]), [[1.0], [1.0]])


def test_a_codebook_is_of_a_bounded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual_words, "MAX_SAMPLED_PICTURES", 4)
    monkeypatch.setattr(visual_words, "MAX_SAMPLE", 1_000)
    assert len(visual_words._sample_descriptors(photographs(), seed=0)) == 1_000


@pytest.mark.parametrize(("number", "pictures"), [(0, 1), (-3, 1), (500, 0)])
def test_nothing_cannot_be_fitted(number: int, pictures: int) -> None:
    with pytest.raises(ValueError, match=f"{pictures} pictures cannot give {number} visual words"):
        UnfittedWords(number).fit(photographs()[:pictures])


def test_a_kept_codebook_is_the_same_backbone() -> None:
    again = VisualWords.from_state(fitted().state)
    assert again.fingerprint == fitted().fingerprint
    assert again.state == fitted().state
    np.testing.assert_array_equal(
        again.vectors(photographs()[:2]), fitted().vectors(photographs()[:2])
    )


def test_the_fingerprint_tells_descriptors_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual_words, "DESCRIPTOR_REVISION", visual_words.DESCRIPTOR_REVISION + 1)
    assert VisualWords(fitted().codebook).fingerprint != fitted().fingerprint


ONES = np.ones((3, 128), dtype=np.float32)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (b"", "do not begin as a codebook does"),
        (b"no codebook, but long enough", "do not begin as a codebook does"),
        (state(ONES, version=2), "of version 2, but this cbcl reads version 1"),
        (state(ONES)[:-1], "do not hold 3 words of 128 numbers"),
        (state(ONES) + b"\0", "do not hold 3 words of 128 numbers"),
        (state(ONES[:, :64]), "each has 64 numbers, not 128"),
        (state(ONES[:0]), "do not hold 0 words of 128 numbers"),
        (state(ONES * np.float32(np.nan)), "not all their numbers are whole and from 0 to 255"),
        (state(ONES * np.float32(np.inf)), "not all their numbers are whole"),
        (state(-ONES), "not all their numbers are whole"),
        (state(ONES * 256), "not all their numbers are whole"),
        (state(ONES / 2), "not all their numbers are whole"),
    ],
)
def test_a_broken_codebook_is_refused(broken: bytes, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        VisualWords.from_state(broken)
