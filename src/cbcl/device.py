"""The device for networks: the processor, or a GPU through PyTorch.

PyTorch is imported only where a GPU is asked for.
"""

from __future__ import annotations

import os
from functools import cache

from cbcl.errors import WeightsError

VARIABLE = "CBCL_DEVICE"


def choose_device(device: str | None = None) -> str:
    """Return "cpu" or "cuda": as given, or else as $CBCL_DEVICE says; raise if there is no GPU.

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
        problem = "is used through PyTorch, which is not installed"
        advice = 'pip install "cbcl[torch]", or unset CBCL_DEVICE'
        raise WeightsError("the GPU", problem, advice) from None
    if not cuda.is_available():
        raise WeightsError("the GPU", "cannot be used: PyTorch finds none", "unset CBCL_DEVICE")
