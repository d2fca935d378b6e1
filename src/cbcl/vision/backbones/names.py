"""Names of backbones: networks side by side, A+B, and views of a picture, A@2views."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

VIEWS = ("@2views", "@whole", "@centre")  # suffixes: both views, or one of them


def is_file(name: str) -> bool:
    """Tell whether the name of a network is that of its file."""
    return name.endswith(".onnx")


def split_name(name: str) -> list[str]:
    """Return the parts of a name; the path of a file that exists may have a + in it.

    >>> split_name("resnet18@2views+resnet34")
    ['resnet18@2views', 'resnet34']
    """
    return [name] if is_file(name) and Path(name).exists() else name.split("+")


def split_views(part: str) -> tuple[str, str]:
    """Return the name of a network and the suffix of its views, which may be empty.

    >>> split_views("resnet18@2views"), split_views("resnet34")
    (('resnet18', '@2views'), ('resnet34', ''))
    """
    views = next((views for views in VIEWS if part.endswith(views)), "")
    return part.removesuffix(views), views


def network_names(name: str) -> list[str]:
    """Return the names of the networks in a backbone.

    >>> network_names("resnet18@2views+resnet34")
    ['resnet18', 'resnet34']
    """
    return [split_views(part)[0] for part in split_name(name)]


def map_files(name: str, change: Callable[[str], str]) -> str:
    """Return a name with its paths of files changed."""
    parts = []
    for part in split_name(name):
        network, views = split_views(part)
        parts.append(change(network) + views if is_file(network) else part)
    return "+".join(parts)


def short_name(name: str) -> str:
    """Return a name without the folders of files.

    >>> short_name("/home/ann/net.onnx@2views+timm/resnet18")
    'net.onnx@2views+timm/resnet18'
    """
    return map_files(name, lambda path: Path(path).name)
