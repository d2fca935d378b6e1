"""A network in PyTorch: any pretrained model of timm, or a module of the user's.

b pictures, d features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from cbcl.errors import WeightsError, first_line
from cbcl.vision.backbones.base import fingerprint
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch.nn import Module

PREFIX = "timm/"


@dataclass(frozen=True, eq=False)
class TorchNetwork:
    """A backbone made of a module, on the GPU if there is one."""

    name: str
    module: Module  # in evaluation mode, of float32 numbers
    preprocessing: Preprocessing
    weights: str  # SHA-256 of all its tensors
    device: str

    batch: ClassVar[int] = 32
    threads: ClassVar[bool] = False  # PyTorch divides a batch among threads by itself
    state: ClassVar[bytes] = b""

    @cached_property
    def fingerprint(self) -> str:
        # The same weights in another design, say with another activation, are another network.
        design, _, _ = self.name.partition(".")
        return fingerprint(design, self.weights, self.preprocessing.description())

    @property
    def at_least(self) -> int:
        return self.preprocessing.at_least

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        import torch

        numbers = np.stack(
            [self.preprocessing.numbers(self.preprocessing.pixels(picture)) for picture in things]
        )
        try:
            # Without TF32, which is PyTorch's default for convolutions on a GPU: vectors must be a processor's, too.
            with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                features = self.module(torch.from_numpy(numbers).to(self.device))
        except RuntimeError as error:
            raise WeightsError(
                f"{self.name} failed on pictures of {numbers.shape}: {first_line(error)}."
            ) from error
        vectors: Floats = features.cpu().numpy()
        if vectors.ndim != 2 or len(vectors) != len(things):
            raise WeightsError(
                f"{self.name} gives {vectors.shape} for {len(things)} pictures, not one vector each."
            )
        return vectors


def from_module(name: str, module: Module, preprocessing: Preprocessing) -> TorchNetwork:
    """A module that takes (b, 3, s, s) and gives (b, d). It is taken over: set to evaluation, float32, and moved."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    ready = module.eval().float()
    weights = _digest(ready.state_dict())
    return TorchNetwork(name, ready.to(device), preprocessing, weights, device)


def load_timm(name: str) -> TorchNetwork:
    """A pretrained model of timm, such as `timm/resnet18.a1_in1k`; timm downloads its weights when first asked.

    Pictures are cropped to their central square, also for the models that timm gives whole pictures, squashed.
    """
    model = name.removeprefix(PREFIX)
    try:
        import timm
        from timm.data import resolve_model_data_config
    except (
        ImportError,
        OSError,
        RuntimeError,
    ) as error:  # the last two: PyTorch and torchvision of different makes
        raise WeightsError(
            f'{PREFIX}{model} needs PyTorch and timm: pip install "cbcl[torch]" ({first_line(error)}).'
        ) from error
    if not timm.is_model_pretrained(model):  # asked for one of these, timm may give random weights
        known = [*timm.list_models(pretrained=True), *timm.list_models()]
        close = get_close_matches(
            model, filter(timm.is_model_pretrained, dict.fromkeys(known)), n=5
        )
        hint = (
            f"the closest names are {', '.join(close)}"
            if close
            else "timm.list_models(pretrained=True) lists all"
        )
        raise WeightsError(f"timm has no pretrained model {model}: {hint}.")
    try:
        module = timm.create_model(model, pretrained=True, num_classes=0)
    except (
        Exception
    ) as error:  # of timm, the hub or the network: they have no common class but this
        raise WeightsError(
            f"timm could not load {model}, whose weights it downloads when first asked: {first_line(error)}."
        ) from error
    name = PREFIX + model
    return from_module(name, module, preprocessing_of(resolve_model_data_config(module), name))


def preprocessing_of(config: Mapping[str, Any], name: str) -> Preprocessing:
    """What timm says of a model's pictures, in our terms.

    >>> colours = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    >>> config = {"input_size": (3, 224, 224), "crop_pct": 0.9, "interpolation": "bicubic", **colours}
    >>> preprocessing_of(config, "net").square
    0.9
    """
    colours, height, width = config["input_size"]
    if colours != 3 or height != width:
        raise WeightsError(
            f"{name} takes pictures of {colours} x {height} x {width}, not colours in a square."
        )
    return Preprocessing.described(
        {
            "size": height,
            "mean": [255 * value for value in config["mean"]],
            "scale": [255 * value for value in config["std"]],
            "square": config["crop_pct"],
            "filter": config["interpolation"],
        },
        f"timm's description of {name}",
    )


def _digest(tensors: Mapping[str, Any]) -> str:
    """Of all names, types, shapes and numbers."""
    whole = sha256()
    for name, tensor in sorted(tensors.items()):
        values = tensor.detach().cpu().numpy()
        whole.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        whole.update(values.tobytes())
    return whole.hexdigest()
