"""Pictures on the device, and random views of them to train on, made there.

n pictures of h x w, b of them in a batch. What is random of a view is an integer, drawn for a whole
epoch at once: a row for each view, the picture's number first.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

PADDING = 4  # pixels on each side before a random crop
BRIGHTNESS, CONTRAST = 63, (0.2, 1.8)  # of EEIL: added to a value of 0 to 255; times its deviation
STEPS = 1_000  # of a contrast
VARIANTS = 12  # {as it is, brighter or darker, of other contrast} x {whole, cropped} x {, mirrored}


class PictureViews(Protocol):
    """Random views of pictures."""

    def draw(self, generator: torch.Generator) -> Tensor:
        """Return the views of one epoch, in random order: integers (views, k)."""

    def make(self, drawn: Tensor) -> Tensor:
        """Return the pictures (b, 3, h, w) of some of the drawn rows."""


class Crops:
    """Each picture once an epoch: cropped at random from a padded one, mirrored half of the time.

    The mean picture is subtracted before the padding, which is 0.
    """

    def __init__(self, pictures: Tensor, mean: Tensor) -> None:
        self.pictures, self.mean = pictures, mean  # (n, h, w, 3) of bytes, (h, w, 3)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Return rows of picture, shift down, shift right, mirrored."""
        n = len(self.pictures)
        order = torch.randperm(n, generator=generator, device=generator.device)
        return torch.stack([order, *_geometry(n, generator)], dim=1)

    def make(self, drawn: Tensor) -> Tensor:
        """Return the views that were drawn."""
        row, down, right, mirrored = drawn.unbind(dim=1)
        return _crop(self.pictures, self.mean, row, down, right, mirrored)


class TwelvefoldViews:
    """EEIL's augmentation: each picture in twelve variants an epoch."""

    def __init__(self, pictures: Tensor, mean: Tensor) -> None:
        self.pictures, self.mean = pictures, mean

    def draw(self, generator: torch.Generator) -> Tensor:
        """Return rows of picture, shift down, shift right, mirrored, brightness, contrast."""
        device = generator.device
        m = VARIANTS * len(self.pictures)
        order = torch.randperm(m, generator=generator, device=device)
        row = order.div(VARIANTS, rounding_mode="floor")
        variant = order.remainder(VARIANTS)
        down, right, _ = _geometry(m, generator)
        mirrored, cropped, change = variant % 2, variant // 2 % 2, variant // 4
        centre = torch.full_like(down, PADDING)
        brightness = _integers(-BRIGHTNESS, BRIGHTNESS, m, generator)
        low, high = (round(STEPS * limit) for limit in CONTRAST)
        contrast = _integers(low, high, m, generator)
        return torch.stack(
            [
                row,
                torch.where(cropped == 1, down, centre),
                torch.where(cropped == 1, right, centre),
                mirrored,
                torch.where(change == 1, brightness, 0),
                torch.where(change == 2, contrast, STEPS),
            ],
            dim=1,
        )

    def make(self, drawn: Tensor) -> Tensor:
        """Return the views that were drawn."""
        row, down, right, mirrored, brightness, contrast = drawn.unbind(dim=1)
        whole = self.pictures[row].float()
        middle = whole.mean(dim=(1, 2, 3), keepdim=True)
        factor = contrast.view(-1, 1, 1, 1) / STEPS
        changed = middle + (whole - middle) * factor + brightness.view(-1, 1, 1, 1)
        each = torch.arange(len(row), device=row.device)
        clamped = changed.clamp(0.0, 255.0)
        return _crop(clamped, self.mean, each, down, right, mirrored)


def centred(pictures: Tensor, mean: Tensor) -> Tensor:
    """Return whole pictures less the mean one, as a network takes them: (n, 3, h, w)."""
    return (pictures.float() / 255.0 - mean).permute(0, 3, 1, 2)


def mean_picture(pictures: Tensor) -> Tensor:
    """Return the mean of each value over pictures: (h, w, 3), from 0 to 1."""
    sums = torch.zeros(pictures.shape[1:], dtype=torch.float64, device=pictures.device)
    for block in pictures.split(4096):
        sums += block.double().sum(dim=0)
    return (sums / (255.0 * len(pictures))).float()


def _geometry(m: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    shifts = (_integers(0, 2 * PADDING, m, generator) for _ in range(2))
    down, right = shifts
    return down, right, _integers(0, 1, m, generator)


def _integers(low: int, high: int, m: int, generator: torch.Generator) -> Tensor:
    return torch.randint(low, high + 1, (m,), generator=generator, device=generator.device)


def _crop(
    pictures: Tensor, mean: Tensor, row: Tensor, down: Tensor, right: Tensor, mirrored: Tensor
) -> Tensor:
    h, w = pictures.shape[1:3]
    y = torch.arange(h, device=row.device) + (down.unsqueeze(1) - PADDING)  # (b, h)
    x = torch.arange(w, device=row.device).expand(len(row), w)
    x = torch.where(mirrored.unsqueeze(1) == 1, w - 1 - x, x) + (right.unsqueeze(1) - PADDING)
    inside = ((y >= 0) & (y < h)).unsqueeze(2) & ((x >= 0) & (x < w)).unsqueeze(1)
    y, x = y.clamp(0, h - 1).unsqueeze(2), x.clamp(0, w - 1).unsqueeze(1)
    values = pictures[row.view(-1, 1, 1), y, x].float() / 255.0 - mean[y, x]  # (b, h, w, 3)
    return (values * inside.unsqueeze(3)).permute(0, 3, 1, 2)
