"""Agreement of all interfaces on real photos: `agreement.py FOLDER --about NAME`.

FOLDER holds one folder a class, such as Caltech-101's 101_ObjectCategories; --leave-out names one
that is no class (BACKGROUND_Google). Four of five classes are learned from five photos each; then
200 other photos, of all classes, are recognized in Python, by `cbcl recognize --json`, through the
server's API, by the graph that `cbcl export --onnx` writes, and by examples/portable.py, which does
without cbcl. Claim: the same label from all, 200 times of 200. Also measured: how many labels stay
when pictures are preprocessed in another way than the graph needs. The record of the run is
appended to study/results/agreement.jsonl.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import onnxruntime
import PIL
from contest import record
from PIL import Image
from serving import served

import cbcl
from cbcl import Recognizer
from cbcl.client import Client
from cbcl.vision.backbones.catalogue import load_network
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Pixels, load
from cbcl.vision.finding import find_labelled

RECORDS = Path(__file__).parent.parent / "results" / "agreement.jsonl"
EXAMPLE = Path(__file__).parents[2] / "examples" / "portable.py"
ONE_VIEW = "efficientnet-lite0"  # whose crop can be made in other ways
SHOTS = 5
N_PHOTOS = 200

Answers: TypeAlias = list[tuple[str, float]]  # label and confidence, photo by photo
T = TypeVar("T")


def by_command_line(memory: Path, photos: list[Path]) -> Answers:
    command = [sys.executable, "-m", "cbcl", "recognize", str(memory), "--json", *map(str, photos)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    return [(answer["label"] or "unknown", answer["confidence"]) for answer in answers]


def by_server(memory: Path, photos: list[Path]) -> Answers:
    with served(memory) as (address, _):
        answers = [Client(address).recognize(photo) for photo in photos]
    return [(answer["label"] or "unknown", answer["confidence"]) for answer in answers]


def by_graph(file: Path, pixels: Pixels) -> Answers:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    labels, confidences = session.run(["label", "confidence"], {"pictures": pixels})
    return [*zip(labels.tolist(), confidences.tolist(), strict=True)]


def by_example(file: Path, photos: list[Path]) -> Answers:
    command = [sys.executable, str(EXAMPLE), str(file), *map(str, photos)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        (label, float(confidence)) for _, label, confidence in (line.split("\t") for line in lines)
    ]


def preprocess_otherwise(pictures: list[Image.Image], size: int) -> dict[str, Pixels]:
    """Return pixels by common ways of preprocessing that are not the network's own."""

    def square(picture: Image.Image, how: Image.Resampling) -> Pixels:
        (width, height), side = picture.size, min(picture.size)
        left, top = (width - side) / 2, (height - side) / 2
        return np.asarray(picture.resize((size, size), how, (left, top, left + side, top + side)))

    bicubic = Image.Resampling.BICUBIC
    return {
        "bilinear": np.stack([square(picture, Image.Resampling.BILINEAR) for picture in pictures]),
        "nearest": np.stack([square(picture, Image.Resampling.NEAREST) for picture in pictures]),
        "squeezed": np.stack(
            [np.asarray(picture.resize((size, size), bicubic)) for picture in pictures]
        ),
        "BGR": np.stack([square(picture, bicubic)[:, :, ::-1] for picture in pictures]),
    }


def draw(items: list[T], count: int, rng: np.random.Generator) -> list[T]:
    return [items[number] for number in rng.permutation(len(items))[:count]]


def choose(
    folder: Path, leave_out: str, rng: np.random.Generator
) -> tuple[list[str], dict[str, list[Path]], list[Path]]:
    """Return all labels, the photos to learn by label, and the photos to recognize."""
    photos: dict[str, list[Path]] = {}
    for label, path in find_labelled([folder]):
        if label != leave_out:
            photos.setdefault(label, []).append(path)
    labels = draw(sorted(photos), len(photos), rng)
    taught = {label: draw(photos[label], SHOTS, rng) for label in labels[: len(labels) * 4 // 5]}
    rest = [path for label in labels for path in photos[label] if path not in taught.get(label, [])]
    return labels, taught, draw(rest, N_PHOTOS, rng)


def recognize(
    taught: dict[str, list[Path]], asked: list[Path], network: Network
) -> tuple[Answers, dict[str, Answers]]:
    """Return the answers in Python, and those by every other way."""
    pictures = [load(path, str(path), network.at_least) for path in asked]
    pixels = np.stack([network.preprocessing.crop(picture) for picture in pictures])
    others = preprocess_otherwise(pictures, network.preprocessing.size)
    with (
        tempfile.TemporaryDirectory() as folder,
        Recognizer(Path(folder, "things.cbcl"), network, cache=False) as recognizer,
    ):
        recognizer.learn_many(taught)
        file = Path(folder, "things.onnx")
        recognizer.snapshot().export_onnx(file)
        answers = recognizer.recognize_many(asked)
        ways = {
            "cbcl recognize --json": by_command_line(recognizer.path, asked),
            "the server": by_server(recognizer.path, asked),
            "the ONNX graph": by_graph(file, pixels),
            "examples/portable.py": by_example(file, asked),
            **{
                f"the ONNX graph, but {how}": by_graph(file, other) for how, other in others.items()
            },
        }
    return [(answer.label or "unknown", answer.confidence) for answer in answers], ways


def compare(answers: Answers, expected: Answers) -> tuple[int, float]:
    """Return how many labels are the same, and the largest difference of their confidences."""
    pairs = [*zip(answers, expected, strict=True)]
    differences = [abs(a[1] - b[1]) for a, b in pairs if a[0] == b[0]]
    return len(differences), max(differences)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--about", help="the data set's name", required=True)
    args = parser.parse_args()
    labels, taught, asked = choose(args.folder, args.leave_out, np.random.default_rng(0))
    network = load_network(ONE_VIEW)
    expected, ways = recognize(taught, asked, network)
    results: list[dict[str, object]] = []
    for way, answers in ways.items():
        same, apart = compare(answers, expected)
        results.append({"way": way, "same label": same, "confidences apart": apart})
        print(f"{way:<32} same label {same} of {N_PHOTOS}, confidences at most {apart:.1e} apart")
    protocol = {
        "known": len(taught),
        "classes": len(labels),
        "shots": SHOTS,
        "asked": N_PHOTOS,
        "seed": 0,
        "unknown": sum(label == "unknown" for label, _ in expected),
    }
    backbone = f"{network.name} {network.fingerprint}"
    modules = [cbcl, np, onnxruntime, PIL]
    run = record(modules, results, about=args.about, backbone=backbone, protocol=protocol)
    with RECORDS.open("a") as lines:
        lines.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
