"""Whether all ways to ask give one answer, on real photos: `python benchmarks/agreement.py FOLDER`.

    python benchmarks/agreement.py 101_ObjectCategories --leave-out BACKGROUND_Google --about Caltech-101

FOLDER holds one folder a class. Four of five classes are learned from five photos each; then 200 other photos, of all
classes, are asked about in Python, by `cbcl recognize --json`, through the server's API, by the graph that `cbcl export
--onnx` writes, and by examples/portable.py, which does without cbcl. Claim: the same label from all, 200 times of 200.
Also, for who prepares pictures otherwise than the graph wants them: what that costs. The run is appended to
results/agreement.jsonl with its record.
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
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import Pixels, find_labelled, load

RECORDS = Path(__file__).parent.parent / "results" / "agreement.jsonl"
EXAMPLE = Path(__file__).parent.parent / "examples" / "portable.py"
SHOTS = 5
ASKED = 200

Said: TypeAlias = list[tuple[str, float]]  # label and confidence, photo by photo
T = TypeVar("T")


def by_command_line(memory: Path, photos: list[Path]) -> Said:
    command = [sys.executable, "-m", "cbcl", "recognize", str(memory), "--json", *map(str, photos)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = [json.loads(line) for line in lines]
    return [(answer["label"] or "unknown", answer["confidence"]) for answer in answers]


def by_server(memory: Path, photos: list[Path]) -> Said:
    with served(memory) as (address, _):
        answers = [Client(address).recognize(photo) for photo in photos]
    return [(answer["label"] or "unknown", answer["confidence"]) for answer in answers]


def by_graph(file: Path, pixels: Pixels) -> Said:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    labels, confidences = session.run(["label", "confidence"], {"pictures": pixels})
    return [*zip(labels.tolist(), confidences.tolist(), strict=True)]


def by_example(file: Path, photos: list[Path]) -> Said:
    command = [sys.executable, str(EXAMPLE), str(file), *map(str, photos)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        (label, float(confidence)) for _, label, confidence in (line.split("\t") for line in lines)
    ]


def otherwise(pictures: list[Image.Image], size: int) -> dict[str, Pixels]:
    """Pixels prepared in ways that people do, but not the network's own."""

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


def drawn(some: list[T], count: int, rng: np.random.Generator) -> list[T]:
    return [some[number] for number in rng.permutation(len(some))[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--about", help="the data set's name", required=True)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    photos: dict[str, list[Path]] = {}
    for label, path in find_labelled([args.folder]):
        if label != args.leave_out:
            photos.setdefault(label, []).append(path)
    labels = drawn(sorted(photos), len(photos), rng)
    taught = {label: drawn(photos[label], SHOTS, rng) for label in labels[: len(labels) * 4 // 5]}
    rest = [path for label in labels for path in photos[label] if path not in taught.get(label, [])]
    asked = drawn(rest, ASKED, rng)
    with (
        tempfile.TemporaryDirectory() as name,
        Recognizer(Path(name, "things.cbcl"), cache=False) as recognizer,
    ):
        recognizer.learn_many(taught)
        file = Path(name, "things.onnx")
        recognizer.export_onnx(file)
        wanted = [
            (answer.label or "unknown", answer.confidence)
            for answer in recognizer.recognize_many(asked)
        ]
        network = recognizer.backbone
        assert isinstance(network, Network)
        pictures = [load(path, str(path), network.at_least) for path in asked]
        pixels = np.stack([network.preprocessing.pixels(picture) for picture in pictures])
        others = otherwise(pictures, network.preprocessing.size)
        ways = {
            "cbcl recognize --json": by_command_line(recognizer.path, asked),
            "the server": by_server(recognizer.path, asked),
            "the ONNX graph": by_graph(file, pixels),
            "examples/portable.py": by_example(file, asked),
            **{f"the ONNX graph, but {how}": by_graph(file, some) for how, some in others.items()},
        }
    results: list[dict[str, object]] = []
    for way, said in ways.items():
        same = sum(one[0] == other[0] for one, other in zip(said, wanted, strict=True))
        apart = max(
            abs(one[1] - other[1])
            for one, other in zip(said, wanted, strict=True)
            if one[0] == other[0]
        )
        results.append({"way": way, "same label": same, "confidences apart": apart})
        print(f"{way:<32} same label {same} of {ASKED}, confidences at most {apart:.1e} apart")
    unknown = sum(label == "unknown" for label, _ in wanted)
    protocol = {
        "known": len(taught),
        "classes": len(labels),
        "shots": SHOTS,
        "asked": ASKED,
        "seed": 0,
        "unknown": unknown,
    }
    backbone = f"{network.name} {network.fingerprint}"
    modules = [cbcl, np, onnxruntime, PIL]
    with RECORDS.open("a") as lines:
        lines.write(
            json.dumps(
                record(modules, results, about=args.about, backbone=backbone, protocol=protocol)
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
