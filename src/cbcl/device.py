"""The device for networks: the processor, or a GPU by PyTorch where asked for.

PyTorch is imported only then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from cbcl.errors import WeightsError

VARIABLE = "CBCL_DEVICE"
_SETTINGS = Lock()  # of PyTorch's precision, which is one for all threads


def choose_device(device: str | None = None) -> str:
    """Return "cpu" or "cuda", as given, else as the environment says; the latter if there is one.

    >>> choose_device("cpu")
    'cpu'
    """
    device = device or os.environ.get(VARIABLE) or "cpu"
    if device == "cpu":
        return device
    if device != "cuda":
        raise WeightsError(f"device {device!r}", "is unknown", "give cpu or cuda")
    _check_gpu()
    return device


@cache
def _check_gpu() -> None:
    try:
        from torch import cuda
    except ModuleNotFoundError:
        advice = 'pip install "cbcl[torch]", or use the processor'
        raise WeightsError(
            "the GPU", "is used through PyTorch, which is not here", advice
        ) from None
    if not cuda.is_available():
        raise WeightsError("the GPU", "cannot be used: PyTorch finds none", "use the processor")


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute in full float32, by the same algorithms each time."""
    import torch

    with _SETTINGS:
        matrices = torch.backends.cuda.matmul
        convolutions = torch.backends.cudnn
        before = matrices.allow_tf32, convolutions.allow_tf32, convolutions.deterministic
        matrices.allow_tf32 = False
        convolutions.allow_tf32 = False
        convolutions.deterministic = True
        try:
            yield
        finally:
            matrices.allow_tf32, convolutions.allow_tf32, convolutions.deterministic = before
