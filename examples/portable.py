"""Recognize photos with a file of `cbcl export --onnx`, without cbcl.

python portable.py things.onnx PHOTO...
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

parser = argparse.ArgumentParser(description="Recognize photos without cbcl.")
parser.add_argument("graph", help="the file that was exported, such as things.onnx")
parser.add_argument("photos", nargs="+", metavar="PHOTO", help="a photo to recognize")
arguments = parser.parse_args()
for file in (arguments.graph, *arguments.photos):
    if not Path(file).is_file():
        parser.error(f"{file} is not a file.")

session = onnxruntime.InferenceSession(arguments.graph, providers=["CPUExecutionProvider"])
inputs = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
if len(session.get_inputs()) == 1:
    inputs = {"pictures": inputs}


def pixels(photo: str, how: dict[str, Any]) -> np.ndarray:
    with Image.open(photo) as image:
        image.draft("RGB", (how["at_least"], how["at_least"]))  # decodes a large JPEG smaller
        upright = ImageOps.exif_transpose(image).convert("RGB")
    if "size" not in how:  # exported with --any-size
        return np.asarray(upright)
    width, height = upright.size
    sides = (width, height) if how.get("squashed") else (min(width, height),) * 2
    across, down = (side * how["square"] for side in sides)
    box = ((width - across) / 2, (height - down) / 2, (width + across) / 2, (height + down) / 2)
    resampling = Image.Resampling[how["filter"].upper()]
    square = upright.resize((how["size"], how["size"]), resampling, box)
    return np.asarray(ImageOps.mirror(square) if how.get("mirrored") else square)


for photo in arguments.photos:
    pictures = {name: pixels(photo, how)[np.newaxis] for name, how in inputs.items()}
    (label,), (confidence,) = session.run(["label", "confidence"], pictures)
    print(photo, label, f"{confidence:.6g}", sep="\t")
