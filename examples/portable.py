"""Recognize photos with a file of `cbcl export --onnx`, without cbcl.

python portable.py things.onnx PHOTO...
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
how = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])


def pixels(photo: str) -> np.ndarray:
    with Image.open(photo) as image:
        image.draft("RGB", (how["at_least"], how["at_least"]))  # decodes a large JPEG smaller
        upright = ImageOps.exif_transpose(image).convert("RGB")
    (width, height), side = upright.size, min(upright.size) * how["square"]
    box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
    resampling = Image.Resampling[how["filter"].upper()]
    return np.asarray(upright.resize((how["size"], how["size"]), resampling, box))


for photo in sys.argv[2:]:
    pictures = {"pictures": pixels(photo)[np.newaxis]}
    (label,), (confidence,) = session.run(["label", "confidence"], pictures)
    print(photo, label, f"{confidence:.6g}", sep="\t")
