"""Rows of numbers in few bytes: bounded errors, and what is stored is what is computed with."""

from __future__ import annotations

import numpy as np
import pytest

from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.coding import empty_rows, encode, pack_four_bits, unpack_four_bits


def draw(n: int = 20, d: int = 640) -> Float32s:
    scales = np.geomspace(1e-6, 1e6, n)[:, np.newaxis]
    return (np.random.default_rng(0).normal(size=(n, d)) * scales).astype(np.float32)


@pytest.mark.parametrize(("bits", "most"), [(8, 127), (16, 32767)])
def test_no_number_is_off_by_more_than_half_a_step(bits: int, most: int) -> None:
    rows = draw()
    coded = encode(rows, bits)
    assert coded.codes.dtype.itemsize * 8 == bits
    assert np.abs(coded.codes).max(axis=1).tolist() == [most] * len(rows)
    errors = np.abs(coded.values.astype(np.float64) - rows)
    assert (errors <= 0.5001 * coded.scales[:, np.newaxis] + 1e-7 * np.abs(rows)).all()


def test_four_bits_lose_little_of_normal_numbers() -> None:
    rows = draw()
    coded = encode(rows, bits=4)
    assert coded.codes.min() == -7
    assert coded.codes.max() == 7
    lost = ((coded.values.astype(np.float64) - rows) ** 2).mean(axis=1)
    assert (lost / (rows.astype(np.float64) ** 2).mean(axis=1)).mean() < 0.016


@pytest.mark.parametrize("bits", [8, 16])
def test_what_was_coded_is_coded_the_same_again(bits: int) -> None:
    once = encode(draw(), bits)
    again = encode(once.values, bits)
    np.testing.assert_array_equal(once.codes, again.codes)
    np.testing.assert_allclose(once.scales, again.scales, rtol=1e-6)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_zeros_and_no_rows_at_all_stay_what_they_are(bits: int) -> None:
    rows = np.zeros((2, 64), dtype=np.float32)
    rows[1] = 1e-45  # less than any step
    assert not encode(rows, bits).values.any()
    assert encode(rows[:0], bits).values.shape == empty_rows(64).values.shape == (0, 64)


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_measurements_are_kept_bit_for_bit_and_copied(bits: int) -> None:
    rows = draw(d=63)
    coded = encode(rows, bits)
    before = rows.copy()
    rows[:] = 7.0
    np.testing.assert_array_equal(coded.values, before)


def test_rows_are_taken_and_joined() -> None:
    coded = encode(draw())
    joined = coded.take(slice(5, None)).join(coded.take(np.array([2, 0])))
    order = [*range(5, 20), 2, 0]
    assert len(joined) == len(order)
    np.testing.assert_array_equal(joined.values, coded.values[order])
    with pytest.raises(ValueError, match="read-only"):
        joined.codes[0, 0] = 1


@pytest.mark.parametrize("d", [1, 2, 63, 64, 65])
def test_two_numbers_fit_in_a_byte(d: int) -> None:
    codes = np.random.default_rng(d).integers(-8, 8, size=(50, d)).astype(np.int8)
    packed = pack_four_bits(codes)
    assert packed.shape == (50, (d + 1) // 2)
    np.testing.assert_array_equal(unpack_four_bits(packed, d), codes)
