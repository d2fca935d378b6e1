"""What photos show, by a file that `cbcl export --onnx` wrote, without cbcl: python portable.py things.onnx PHOTO..."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
how = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])


def pixels(photo: str) -> np.ndarray:
    with Image.open(photo) as image:
        image.draft(
            "RGB", (how["at_least"], how["at_least"])
        )  # a large JPEG is decoded to no more than it takes
        upright = ImageOps.exif_transpose(image).convert("RGB")
    (width, height), side = upright.size, min(upright.size) * how["square"]
    box = ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)
    return np.asarray(
        upright.resize((how["size"], how["size"]), Image.Resampling[how["filter"].upper()], box)
    )


for photo in sys.argv[2:]:
    (label,), (confidence,) = session.run(
        ["label", "confidence"], {"pictures": pixels(photo)[np.newaxis]}
    )
    print(photo, label, f"{confidence:.6g}", sep="\t")
