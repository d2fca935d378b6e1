"""Networks in PyTorch: any pretrained model of timm, or a user's module.

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

from cbcl.errors import WeightsError, first_line, reason
from cbcl.vision.backbones.base import fingerprint
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing

if TYPE_CHECKING:
    from torch.nn import Module

TIMM_PREFIX = "timm/"


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
        # Without the architecture, networks that differ in an activation only would be the same.
        architecture, _, _ = self.name.partition(".")
        return fingerprint(architecture, self.weights, self.description)

    @property
    def description(self) -> dict[str, Any]:
        return self.preprocessing.description

    @property
    def at_least(self) -> int:
        return self.preprocessing.at_least

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        import torch

        how = self.preprocessing
        pictures = np.stack([how.normalize(how.crop(picture)) for picture in things])
        try:
            # Without TF32, PyTorch's default on a GPU, vectors agree with those of a processor.
            with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                features = self.module(torch.from_numpy(pictures).to(self.device))
        except RuntimeError as error:
            problem = f"failed on pictures of {pictures.shape}: {first_line(error)}"
            raise WeightsError(self.name, problem) from error
        vectors: Floats = features.cpu().numpy()
        if vectors.ndim != 2 or len(vectors) != len(things):
            problem = f"gives {vectors.shape} for {len(things)} pictures, not one vector each"
            raise WeightsError(self.name, problem)
        return vectors


def from_module(name: str, module: Module, preprocessing: Preprocessing) -> TorchNetwork:
    """Make a backbone of a module from (b, 3, s, s) to (b, d).

    The module itself is set to evaluation mode and float32, and moved to the GPU if there is one.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    ready = module.eval().float()
    weights = _digest(ready.state_dict())
    return TorchNetwork(name, ready.to(device), preprocessing, weights, device)


def load_timm(name: str) -> TorchNetwork:
    """Load a pretrained model of timm, such as `timm/resnet18.a1_in1k`; timm downloads its weights.

    Pictures are cropped to their central square, even where timm squashes them for a model.
    """
    model = name.removeprefix(TIMM_PREFIX)
    name = TIMM_PREFIX + model
    try:
        import timm
        from timm.data import resolve_model_data_config
    # The last two: PyTorch and torchvision of different builds.
    except (ImportError, OSError, RuntimeError) as error:
        advice = f'pip install "cbcl[torch]" ({first_line(error)})'
        raise WeightsError(name, "needs the extra torch", advice) from error
    if not timm.is_model_pretrained(model):  # timm may return random weights for others
        raise WeightsError("timm", f"has no pretrained model {model}", _suggest(model, timm))
    try:
        module = timm.create_model(model, pretrained=True, num_classes=0)
    except Exception as error:  # of timm, the hub or the network: they have no common class
        problem = f"could not load {model}, whose weights it downloads when first asked"
        raise WeightsError("timm", problem, reason(error)) from error
    return from_module(name, module, preprocessing_of(resolve_model_data_config(module), name))


def _suggest(model: str, timm: Any) -> str:
    names = dict.fromkeys([*timm.list_models(pretrained=True), *timm.list_models()])
    close = get_close_matches(model, filter(timm.is_model_pretrained, names), n=5)
    if close:
        return f"the closest names are {', '.join(close)}"
    return "timm.list_models(pretrained=True) lists all"


def preprocessing_of(config: Mapping[str, Any], name: str) -> Preprocessing:
    """Convert timm's description of a model's preprocessing.

    >>> colours = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)}
    >>> how = {"input_size": (3, 224, 224), "crop_pct": 0.9, "interpolation": "bicubic", **colours}
    >>> preprocessing_of(how, "net").square
    0.9
    """
    colours, height, width = config["input_size"]
    if colours != 3 or height != width:
        problem = f"takes pictures of {colours} x {height} x {width}, not colours in a square"
        raise WeightsError(name, problem)
    description = {
        "size": height,
        "mean": [255 * value for value in config["mean"]],
        "scale": [255 * value for value in config["std"]],
        "square": config["crop_pct"],
        "filter": config["interpolation"],
    }
    return Preprocessing.from_description(description, f"timm's description of {name}")


def _digest(tensors: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all names, types, shapes and numbers."""
    digest = sha256()
    for name, tensor in sorted(tensors.items()):
        values = tensor.detach().cpu().numpy()
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
