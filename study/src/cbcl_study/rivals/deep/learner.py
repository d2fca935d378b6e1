"""The life of a learner of pictures: its examples, network, exemplars, answers and checkpoints.

n pictures of h x w, d features, t classes. A class's number is its place in order of appearance.
"""

from __future__ import annotations

import copy
import io
import math
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn import functional

from cbcl.files import write_atomically
from cbcl_study.rivals.deep.exemplars import herd
from cbcl_study.rivals.deep.networks import BLOCKS_32, WIDTHS_32, ResNet
from cbcl_study.rivals.deep.sampling import PictureViews, centred, mean_picture
from cbcl_study.rivals.deep.training import Loss, Recipe, half_precision, train
from cbcl_study.rivals.inputs import nothing_learned, number_labels

BLOCK = 2_000  # pictures to be evaluated at a time


class Increment(NamedTuple):
    """Pictures of new classes, on the device."""

    pictures: Tensor  # (n, h, w, 3), bytes
    numbers: Tensor  # (n,), of their classes
    old: int  # classes known before
    t: int  # classes known with these


class PictureLearner:
    """A network that learns new classes, increment after increment; a method is a subclass.

    All that is random is drawn from one generator, on the device.
    """

    last_relu = True  # of the network

    def __init__(
        self,
        *,
        seed: int = 0,
        blocks: tuple[int, ...] = BLOCKS_32,
        widths: tuple[int, ...] = WIDTHS_32,
        device: str | None = None,
    ) -> None:
        self.seed, self.blocks, self.widths = seed, blocks, widths
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.classes: NDArray[Any] = np.empty(0, dtype=str)  # in the order in which they came
        self.sizes: list[int] = []  # classes of each increment
        self.mean: Tensor | None = None  # (h, w, 3), of the first increment's pictures
        self.network: ResNet | None = None
        self.exemplars: list[Tensor] = []  # of each class, (m, h, w, 3), the best first

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn new classes from pictures: (n, h, w, 3), or (n, 3 h w) of square ones."""
        pictures, labels = as_pictures(X), np.asarray(y)
        if labels.shape != pictures.shape[:1]:
            raise ValueError(
                f"{len(pictures)} pictures need as many labels: got labels of shape {labels.shape}."
            )
        self._check_size(pictures)
        classes, numbers = number_labels(self.classes, labels)
        old, t = len(self.classes), len(classes)
        if numbers.min() < old:
            label = classes[numbers.min()]
            raise ValueError(f"label {label} was learned before: give pictures of new classes.")
        increment = Increment(self._on_device(pictures), self._on_device(numbers), old, t)
        if not old:
            self.mean = mean_picture(increment.pictures)
        self._learn(increment)
        self.classes, self.sizes = classes, [*self.sizes, t - old]
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of each picture."""
        pictures = as_pictures(X)
        self._check_size(pictures)
        self._ready()
        with torch.no_grad():
            numbers = self._answers(self._on_device(pictures))
        answers: NDArray[Any] = self.classes[numbers.cpu().numpy()]
        return answers

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that are needed to go on."""
        network, mean = self._ready(), self._mean()
        arrays = {"classes": self.classes, "sizes": np.array(self.sizes), "mean": _array(mean)}
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                arrays[f"network.{name}"] = _array(tensor)
        if self.exemplars:
            arrays["exemplars"] = _array(torch.cat(self.exemplars))
            arrays["exemplar_counts"] = np.array([*map(len, self.exemplars)])
        return arrays

    def describe_device(self) -> dict[str, str]:
        """Return the device and the version of torch, which alone moves results."""
        cuda = self.device.type == "cuda"
        name = torch.cuda.get_device_name(self.device) if cuda else self.device.type
        return {"name": name, "torch": torch.__version__}

    def save(self, path: Path) -> None:
        """Write a checkpoint with all that is needed to go on as if nothing had happened."""
        buffer = io.BytesIO()
        torch.save(self._checkpoint(), buffer)
        write_atomically(path, buffer.getvalue())

    def load(self, path: Path) -> Self:
        """Go on from a checkpoint that such a learner wrote."""
        checkpoint = torch.load(path, map_location=self.device, weights_only=True)
        if checkpoint["method"] != type(self).__name__:
            raise ValueError(f"{path} is a checkpoint of {checkpoint['method']}.")
        self._restore(checkpoint)
        return self

    def _learn(self, increment: Increment) -> None:
        """Train the network on an increment, and choose what to keep of it."""
        raise NotImplementedError

    def _descend(self, views: PictureViews, loss: Loss, recipe: Recipe) -> None:
        """Train the network on views of pictures."""
        train(self._ready(), views, loss, recipe, self.generator)

    def _answers(self, pictures: Tensor) -> Tensor:
        """Return the number of each picture's class: (n,)."""
        return self._scores(pictures).argmax(dim=1)

    def _checkpoint(self) -> dict[str, Any]:
        return {
            "method": type(self).__name__,
            "classes": self.classes.tolist(),
            "sizes": self.sizes,
            "mean": self.mean,
            "network": self.network and self.network.state_dict(),
            "exemplars": self.exemplars,
            "generator": self.generator.get_state(),
        }

    def _restore(self, checkpoint: dict[str, Any]) -> None:
        self.classes, self.sizes = np.array(checkpoint["classes"]), checkpoint["sizes"]
        self.mean, self.exemplars = checkpoint["mean"], checkpoint["exemplars"]
        self.network = None
        if checkpoint["network"] is not None:
            weights = checkpoint["network"]
            self._grow(len(weights["head.bias"])).load_state_dict(weights)
        self.generator.set_state(checkpoint["generator"].cpu())

    def _ready(self) -> ResNet:
        """Return the trained network."""
        if self.network is None:
            raise nothing_learned()
        return self.network

    def _mean(self) -> Tensor:
        if self.mean is None:
            raise nothing_learned()
        return self.mean

    def _grow(self, outputs: int) -> ResNet:
        """Return the network with at least so many outputs: the same one, or a first one."""
        if self.network is None:
            self.network = ResNet(
                outputs,
                self.generator,
                blocks=self.blocks,
                widths=self.widths,
                last_relu=self.last_relu,
            ).eval()
        self.network.grow(outputs, self.generator)
        return self.network

    def _features(self, pictures: Tensor) -> Tensor:
        """Return the features of whole pictures: (n, d)."""
        network, mean, features = self._ready(), self._mean(), []
        with torch.no_grad(), half_precision(self.device):
            for block in pictures.split(BLOCK):
                features.append(network.features(centred(block, mean)).float())
        return torch.cat(features)

    def _unit_features(self, pictures: Tensor) -> Tensor:
        """Return features of unit length: (n, d)."""
        return functional.normalize(self._features(pictures))

    def _scores(self, pictures: Tensor) -> Tensor:
        """Return a score for each class seen: (n, t)."""
        with torch.no_grad():
            return self._ready().scores(self._features(pictures))[:, : len(self.classes)]

    def _choose(self, increment: Increment, room: int) -> list[Tensor]:
        """Return the best pictures of each new class, in the order of herding."""
        chosen = []
        for number in range(increment.old, increment.t):
            pictures = increment.pictures[increment.numbers == number]
            chosen.append(pictures[herd(self._unit_features(pictures), room)])
        return chosen

    def _renew_exemplars(self, increment: Increment, room: int) -> None:
        """Keep the first of each old class, and choose as many of each new one."""
        shortened = [pictures[:room].clone() for pictures in self.exemplars]
        self.exemplars = [*shortened, *self._choose(increment, room)]

    def _check_size(self, pictures: NDArray[np.uint8]) -> None:
        if self.mean is not None and pictures.shape[1:] != self.mean.shape:
            raise ValueError(
                f"pictures are of shape {pictures.shape[1:]}, but those learned before are of "
                f"{tuple(self.mean.shape)}."
            )

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(array, device=self.device)  # a copy: the array is somebody's own


def as_pictures(X: ArrayLike) -> NDArray[np.uint8]:
    """Return pictures as bytes, (n, h, w, 3); flat ones are taken for square ones.

    >>> as_pictures([[0.0, 254.6, 255.0]]).tolist()
    [[[[0, 255, 255]]]]
    """
    array = np.asarray(X)
    if array.ndim == 2:
        side = math.isqrt(array.shape[1] // 3)
        if 3 * side * side == array.shape[1]:
            array = array.reshape(len(array), side, side, 3)
    if array.ndim != 4 or array.shape[3] != 3 or 0 in array.shape:
        raise ValueError(
            "pictures must be an array of n x h x w x 3, or n rows of square ones: got an array of "
            f"shape {array.shape}."
        )
    if array.dtype != np.uint8:
        if not (array.min() >= 0 and array.max() <= 255):
            raise ValueError("pictures must have values from 0 to 255.")
        array = np.rint(array)
    return array.astype(np.uint8, copy=False)


def classification(network: ResNet, numbers: Tensor) -> Loss:
    """Return the cross-entropy of a softmax over all outputs."""

    def loss(x: Tensor, rows: Tensor) -> Tensor:
        return functional.cross_entropy(network(x), numbers[rows])

    return loss


def frozen(network: ResNet) -> ResNet:
    """Return a copy to learn from: in evaluation mode, without gradients."""
    teacher = copy.deepcopy(network)
    teacher.eval()
    teacher.requires_grad_(False)
    teacher.zero_grad(set_to_none=True)
    return teacher


def _array(tensor: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = tensor.detach().cpu().numpy().copy()
    return array
