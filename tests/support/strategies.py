"""Hypothesis strategies: ordinary vectors, and those with close decisions or overflows."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from cbcl.method.arrays import Float32s
from cbcl.method.centroids.kernel import KERNEL, NUMPY
from support import reference

PLANS = {  # of a clustering: its kernel and block sizes, which do not change its result
    "compiled": {"KERNEL": KERNEL},
    "compiled, with a BLAS": {"KERNEL": KERNEL, "BLAS_FROM": 1, "BLAS_ROWS": 7},
    "numpy": {"KERNEL": NUMPY},
    "numpy, with a BLAS": {"KERNEL": NUMPY, "BLAS_FROM": 1, "BLAS_ROWS": 7},
}


@st.composite
def vectors(draw: st.DrawFn, least: int = 1, most: int = 40, d: int | None = None) -> Float32s:
    n = draw(st.integers(least, most))
    d = d or draw(st.sampled_from([1, 2, 3, 8, 9, 17, 33]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = ["normal", "lattice", "collinear", "offset", "uneven", "duplicates"]
    kind = draw(st.sampled_from(kinds))
    if kind == "normal":
        x = rng.normal(size=(n, d))
    elif kind == "lattice":
        x = rng.integers(-2, 3, size=(n, d)).astype(float)
    elif kind == "collinear":
        x = np.outer(rng.integers(0, 6, size=n), rng.normal(size=d))
    elif kind == "offset":
        x = 1e4 + 1e-3 * rng.normal(size=(n, d))
    elif kind == "uneven":
        x = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 6, size=(n, 1))
    else:
        x = rng.normal(size=(3, d))[rng.integers(0, 3, size=n)]
    scale = draw(st.sampled_from([1.0, 1.0, 1.0, 1e-44, 1e-38, 1e-20, 1e10, 1e25]))
    return (x * scale).astype(np.float32)


@st.composite
def radii(draw: st.DrawFn, x: Float32s) -> float:
    """Draw a radius for x; often exactly a distance that occurs, or the next number to it."""
    distances = [reference.distance(a, b) for a in x[:6] for b in x[:6]]
    choices = [0.0, math.inf, float(np.mean(distances)), *distances]
    radius = draw(st.sampled_from(choices))
    neighbours = [math.nextafter(radius, math.inf), max(0.0, math.nextafter(radius, 0))]
    return draw(st.sampled_from([radius, radius, *neighbours]))
