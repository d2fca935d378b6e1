""" "Unknown" of Python, of the ONNX graph and of the app, about the same vectors."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from support.graphs import Said, ask, graph_of
from support.heads import voting

import cbcl
from cbcl.heads.answer_nodes import AnswerGraph, AnswerValues, Outputs, add_outputs
from cbcl.heads.base import HeadModel, Sight
from cbcl.heads.discriminant.model import DiscriminantHeadModel
from cbcl.heads.discriminant.onnx import TOLERANCE
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.concepts import agg_var
from cbcl.method.centroids.confidence import Scale
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.model import learn_statistics
from cbcl.method.discriminant.open_set import Cosines
from cbcl.method.discriminant.statistics import learn_class
from cbcl.method.model import Guess, Verdict, conclude

SCRIPTS = Path(cbcl.__file__).parent / "export" / "static" / "js"
D = 96
LABELS = ["cup", "key", "pen"]

# Answers as ONNX Runtime would: "the model" has the outputs about each picture, a number.
RUNTIME = """
export const env = { wasm: {} };
export class Tensor { constructor(type, data) { this.data = data; } }
const read = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
export const InferenceSession = {
  create: async (model) => ({ run: async ({ pictures: { data } }) => read(model)[data[0]] }),
};
"""
# Runs the app's worker on each picture, and says what the page makes of its answer.
PAGE = """
import { readFileSync } from "node:fs";
import { kindOf } from "./js/verdict.js";
const posted = [];
globalThis.self = {
  addEventListener: (_, own) => { self.ask = (data) => own({ data }); },
  postMessage: (message) => posted.push(message),
};
await import("./js/model_worker.js");
const model = readFileSync("outputs.json");
await self.ask({ id: 0, task: "open", given: { model, runtime: null } });
for (const picture of JSON.parse(model).keys()) {
  await self.ask({ id: picture, task: "recognize", given: { data: [picture] } });
}
const answers = posted.slice(1).map(({ result }) => ({ ...result, kind: kindOf(result) }));
console.log(JSON.stringify(answers));
"""


def shown_by_the_app(said: Said, folder: Path) -> list[dict[str, Any]]:
    """What the page of `cbcl export --app` shows, where its graph gives these outputs."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("the app is not run: node is not here")
    shutil.copytree(SCRIPTS, folder / "js")
    (folder / "runtime").mkdir()
    (folder / "runtime" / "ort.js").write_text(RUNTIME)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "page.js").write_text(PAGE)
    rows = [
        {name: {"data": values[[row]].ravel().tolist()} for name, values in said.items()}
        for row in range(len(said["label"]))
    ]
    (folder / "outputs.json").write_text(json.dumps(rows))
    done = subprocess.run([node, "page.js"], cwd=folder, capture_output=True, text=True, check=True)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


class AnyStrangeness:
    """A head whose vectors are how strange they are, to ask about the very limit."""

    labels = LABELS[:2]

    def answer(self, sight: Sight) -> list[Verdict]:
        ranking = (Guess("key", 0.4, 0.0), Guess("cup", 0.2, 0.0))
        return [conclude(ranking, (), 0.7, float(row[0])) for row in sight.matrix]

    def add_answer(self, graph: AnswerGraph, vector: str) -> Outputs:
        strangeness = graph.double(graph.column(vector))
        zeros = graph("Mul", strangeness, 0.0)
        ranking = graph("Add", graph("Cast", zeros, to=TensorProto.INT64), np.array([1, 0]))
        confidences = graph("Add", zeros, np.array([0.4, 0.2]))
        answer = AnswerValues(graph("Add", zeros, 0.3), strangeness, ranking, confidences)
        return add_outputs(graph, answer, self.labels, 1)


def at_the_limit() -> tuple[Any, Sight]:
    one = np.float32(1.0)
    near = [np.nextafter(one, 0.0, dtype=np.float32), one, np.nextafter(one, one + one)]
    return AnyStrangeness(), Sight(np.array([0.0, *near, 1.7], np.float32)[:, np.newaxis])


def draw() -> tuple[Float32s, Float32s]:
    """Vectors to learn, eight a label; and to ask about, from those of a label to a stranger's."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, D))
    taught = means[:3].repeat(8, axis=0) + 0.7 * rng.normal(size=(24, D))
    shares = np.linspace(0.0, 1.0, 40)[:, np.newaxis]
    asked = (1.0 - shares) * means[0] + shares * means[3] + 0.3 * rng.normal(size=(40, D))
    return taught.astype(np.float32), asked.astype(np.float32)


def by_statistics(*, negatives: bool = False) -> tuple[HeadModel, Sight]:
    taught, asked = draw()
    learned = learn_statistics(None, taught, np.array(LABELS, dtype=object).repeat(8))
    if negatives:
        strange = learn_class(as_directions(asked[20:24]))[0]
        cosines = Cosines(0.5, 0.13, 0.07, 0.1, 0.07)
        learned = replace(learned, negatives=strange, cosines=cosines)
    return DiscriminantHeadModel(learned), DirectionSight(np.concatenate([asked, taught]))


def by_the_vote() -> tuple[HeadModel, Sight]:
    taught, asked = draw()
    parts = zip(LABELS, np.split(taught, 3), strict=True)
    model = CentroidModel({label: agg_var(own, np.inf) for label, own in parts}, np.inf, 1)
    return voting(model, Scale(0.5, 0.8)), Sight(np.concatenate([asked, taught]))


@pytest.mark.parametrize(
    ("model", "sight"),
    [at_the_limit(), by_statistics(), by_statistics(negatives=True), by_the_vote()],
    ids=["at the limit", "statistics", "statistics, negatives", "vote"],
)
def test_python_the_graph_and_the_app_call_the_same_unknown(
    model: HeadModel, sight: Sight, tmp_path: Path
) -> None:
    wanted = model.answer(sight)
    labels = [verdict.label for verdict in wanted]
    said = ask(graph_of(model, sight.matrix.shape[1]), sight.matrix)
    shown = shown_by_the_app(said, tmp_path)
    assert {*labels} > {None}
    assert said["label"].tolist() == [label or "unknown" for label in labels]
    assert [answer["label"] for answer in shown] == labels
    assert [answer["kind"] == "unknown" for answer in shown] == [label is None for label in labels]
    confidences = [verdict.confidence for verdict in wanted]
    np.testing.assert_allclose(said["confidence"], confidences, rtol=0.0, atol=TOLERANCE)
    assert [answer["confidence"] for answer in shown] == said["confidence"].tolist()
