"""The app in Chromium, compared with Python: `python study/benchmarks/app.py FOLDER --about NAME`.

FOLDER is as for agreement.py, and so are the photos: four of five classes learned from five photos
each, 200 photos asked. Three things are measured. First, the graph that crops and resizes by itself
(`--any-size`) and, in its place, ONNX's own Resize, against Pillow: labels, confidences and
processor time. Second, the app that `cbcl export --app` writes, in Chromium from a plain static
server, for EfficientNet-Lite0 and its eight bits: labels and confidences against Python's, seconds
until it can answer and to the first answer, answers a second about frames of a camera, and how much
of the processor they take, which other programs hardly change (Linux). Third, sizes, also
compressed. --runtime: as for `cbcl export`. The record of the run is appended to results/app.jsonl.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
import PIL
from agreement import N_PHOTOS, Answers, choose, compare
from contest import record
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

import cbcl
from cbcl import Recognizer
from cbcl.export.app import export_app
from cbcl.export.runtime import load_runtime
from cbcl.vision.backbones.catalogue import load_network
from cbcl.vision.decoding import Pixels, load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.app import static_server
from support.browser import QUIET, browser_path

RECORDS = Path(__file__).parent.parent / "results" / "app.jsonl"
BACKBONES = ("efficientnet-lite0", "efficientnet-lite0-int8")
N_FRAMES, ROUNDS = 10, 5  # answers that are timed together; the best round counts

ASK = """async (input) => {
  const { photoPixels } = await import("./js/pixels.js");
  const answers = [];
  for (const file of input.files) {
    const answer = await window.model.recognize(await photoPixels(file, window.app.at_least));
    answers.push([answer.label ?? "unknown", answer.confidence]);
  }
  return answers;
}"""
OPEN = """async () => {
  const { openModel } = await import("./js/model.js");
  window.app = await (await fetch("app.json")).json();
  window.model = await openModel(window.app, () => {});
  const input = document.createElement("input");
  Object.assign(input, { type: "file", multiple: true, id: "asked" });
  document.body.append(input);
}"""
TIME = """async (count) => {
  const [width, height] = [448, 336];
  const began = performance.now();
  for (let frame = 0; frame < count; frame++) {
    const data = new Uint8Array(width * height * 3).map((_, place) => place * 7919);
    await window.model.recognize({ data, width, height });
  }
  return (performance.now() - began) / 1000;
}"""


def resize_session(size: int) -> onnxruntime.InferenceSession:
    """Return ONNX's own antialiased cubic Resize, with Pillow's cubic."""
    node = helper.make_node(
        "Resize",
        ["pictures", "", "", "sizes"],
        ["resized"],
        mode="cubic",
        antialias=1,
        cubic_coeff_a=-0.5,
        axes=[1, 2],
    )
    pictures = helper.make_tensor_value_info("pictures", TensorProto.UINT8, [1, "h", "w", 3])
    resized = helper.make_tensor_value_info("resized", TensorProto.UINT8, None)
    sizes = numpy_helper.from_array(np.array([size, size]), "sizes")
    graph = helper.make_graph([node], "resize", [pictures], [resized], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return session(model.SerializeToString())


def session(model: bytes | Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def crop_session(file: Path) -> onnxruntime.InferenceSession:
    """Return the part of a graph for any size that crops and resizes."""
    model = onnx.load(file)
    last = next(node for node in model.graph.node if node.op_type == "If").output[0]
    end = next(place for place, node in enumerate(model.graph.node) if last in node.output)
    used = {name for node in model.graph.node[: end + 1] for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in used]
    output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    nodes = model.graph.node[: end + 1]
    graph = helper.make_graph(nodes, "crop", model.graph.input, [output], kept)
    opsets = model.opset_import
    part = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    return session(part.SerializeToString())


def compare_resizing(
    recognizer: Recognizer, folder: Path, asked: list[Path], expected: Answers
) -> list[dict[str, object]]:
    network = load_network(BACKBONES[0])
    fixed, any_size = folder / "fixed.onnx", folder / "any.onnx"
    recognizer.snapshot().export_onnx(fixed)
    recognizer.snapshot().export_onnx(any_size, any_size=True)
    crop, resize = crop_session(any_size), resize_session(network.preprocessing.size)

    def by_graph(picture: Image.Image) -> Pixels:
        (planes,) = crop.run(None, {"pictures": np.asarray(picture)[np.newaxis]})
        return np.asarray(planes[0].transpose(1, 2, 0), dtype=np.uint8)

    def by_resize(picture: Image.Image) -> Pixels:
        (width, height), side = picture.size, min(picture.size)
        top, left = (height - side) // 2, (width - side) // 2
        square = np.asarray(picture)[top : top + side, left : left + side]
        (pixels,) = resize.run(None, {"pictures": np.ascontiguousarray(square)[np.newaxis]})
        return np.asarray(pixels[0])

    ways: dict[str, Callable[[Image.Image], Pixels]] = {
        "Pillow": network.preprocessing.crop,
        "the graph": by_graph,
        "ONNX's Resize": by_resize,
    }
    pictures = [load(path, str(path), network.at_least) for path in asked]
    answering, results = session(fixed), []
    by_pillow = [network.preprocessing.crop(picture) for picture in pictures]
    for way, resized in ways.items():
        began = time.process_time()
        pixels = [resized(picture) for picture in pictures]
        seconds = (time.process_time() - began) / len(pictures)
        answers: Answers = []
        for one in pixels:
            named = answering.run(["label", "confidence"], {"pictures": one[np.newaxis]})
            answers.append((str(named[0][0]), float(named[1][0])))
        same, apart = compare(answers, expected)
        right = sum(
            answer[0] == path.parent.name for answer, path in zip(answers, asked, strict=True)
        )
        other = np.mean([(a != b).mean() for a, b in zip(pixels, by_pillow, strict=True)])
        results.append(
            {
                "resized by": way,
                "same label": same,
                "confidences apart": apart,
                "apart by more than 0.01": _far(answers, expected),
                "right": right,
                "other pixels": float(other),
                "ms": 1000 * seconds,
            }
        )
        print(results[-1])
    return results


def _far(answers: Answers, expected: Answers) -> int:
    return sum(
        a[0] == b[0] and abs(a[1] - b[1]) > 0.01 for a, b in zip(answers, expected, strict=True)
    )


def run_app(
    browser: Browser, folder: Path, asked: list[Path], expected: Answers
) -> dict[str, object]:
    with static_server(folder) as address:
        page = browser.new_context().new_page()
        began = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("#pick:enabled")
        loaded = time.perf_counter() - began
        page.set_input_files("#pick", asked[:1])
        page.wait_for_selector("#photo-list li:not([data-kind=waiting])")
        first = time.perf_counter() - began - loaded
        page.evaluate(OPEN)
        answers: Answers = []
        for start in range(0, len(asked), 20):
            page.locator("#asked").set_input_files(asked[start : start + 20])
            said = page.locator("#asked").evaluate(ASK)
            answers += [(label, confidence) for label, confidence in said]
        seconds, used = time_frames(page)
        page.context.close()
    same, apart = compare(answers, expected)
    return {
        "same label": same,
        "confidences apart": apart,
        "apart by more than 0.01": _far(answers, expected),
        "seconds to load": loaded,
        "seconds to the first answer": first,
        "answers a second": 1 / seconds,
        "processor seconds an answer": used,
    }


def time_frames(page: Page) -> tuple[float, float]:
    """Return seconds and processor seconds an answer, each in the best of some rounds."""
    seconds, used = [], []
    for _ in range(ROUNDS):
        before = processor_seconds()
        seconds.append(page.evaluate(TIME, N_FRAMES) / N_FRAMES)
        used.append((processor_seconds() - before) / N_FRAMES)
    return min(seconds), min(used)


def processor_seconds() -> float:
    """Return the processor time that this process's children and theirs have taken."""
    stats = {}  # parent and time by process
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        stats[int(path.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours, before = {os.getpid()}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {process for process, (parent, _) in stats.items() if parent in ours}
    ticks = sum(stats[process][1] for process in ours - {os.getpid()} if process in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


def sizes_of(folder: Path) -> dict[str, list[int]]:
    """Return the bytes of the files of an app by their parts, as they are and compressed."""
    sizes: dict[str, list[int]] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        part = {".onnx": "model", ".wasm": "runtime", ".bin": "thumbnails"}.get(path.suffix, "page")
        data = path.read_bytes()
        sum_of = sizes.setdefault(part, [0, 0])
        sum_of[0] += len(data)
        sum_of[1] += len(gzip.compress(data, 9))
    return sizes


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--about", help="the data set's name", required=True)
    parser.add_argument("--runtime", help="as for `cbcl export`")
    args = parser.parse_args()
    runtime = load_runtime(args.runtime)
    labels, taught, asked = choose(args.folder, args.leave_out, np.random.default_rng(0))
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=[*QUIET])
        for backbone in BACKBONES:
            folder = Path(name, backbone)
            with Recognizer(folder.with_suffix(".cbcl"), backbone) as recognizer:
                recognizer.learn_many(taught)
                expected: Answers = [
                    (answer.label or "unknown", answer.confidence)
                    for answer in recognizer.recognize_many(asked)
                ]
                if backbone == BACKBONES[0]:
                    results += compare_resizing(recognizer, Path(name), asked, expected)
                export_app(
                    folder, "things", recognizer.snapshot().portable(thumbnails=True), runtime
                )
            right = sum(
                answer[0] == path.parent.name for answer, path in zip(expected, asked, strict=True)
            )
            measured = run_app(browser, folder, asked, expected)
            row = {"app": backbone, "right": right, **measured, "sizes": sizes_of(folder)}
            results.append(row)
            print(row)
        chromium = browser.version
        browser.close()
    protocol = {"known": len(taught), "classes": len(labels), "asked": N_PHOTOS, "seed": 0}
    run = record(
        [cbcl, np, onnxruntime, PIL],
        results,
        about=args.about,
        protocol=protocol,
        runtime=f"onnxruntime-web {runtime.version}",
        browser=f"Chromium {chromium}",
        load=os.getloadavg()[0],
    )
    with RECORDS.open("a") as lines:
        lines.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
