// Pixels, verdicts and languages of the app, without a browser; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import test from "node:test";

import { chooseLanguage } from "../../src/cbcl/export/static/js/language_choice.js";
import { reduce, reductionOf } from "../../src/cbcl/export/static/js/pixels.js";
import { kindOf, reasonsOf, runnersUp } from "../../src/cbcl/export/static/js/verdict.js";

function answerOf(label, confidence, others = [["cat", 0.3], ["dog", 0.001]]) {
  const ranking = [[label ?? "cup", confidence], ...others].map(([name, share]) => ({
    label: name,
    confidence: share,
  }));
  return { label, confidence, ranking, distances: Float32Array.of(3, 1, 2, 5, 4) };
}

test("a large photo is reduced by 2, 4 or 8, and keeps enough pixels", () => {
  const factors = [335, 336, 671, 672, 1343, 1344, 2688, 9999].map((side) =>
    reductionOf(side, 10_000, 336),
  );
  assert.deepEqual(factors, [1, 1, 1, 2, 2, 4, 8, 8]);
});

test("reducing averages squares, and what is left at the edges", () => {
  const rgba = Uint8ClampedArray.from([
    ...[0, 10, 20, 255], ...[2, 10, 20, 255], ...[9, 9, 9, 255],
    ...[4, 10, 20, 255], ...[8, 10, 20, 255], ...[11, 9, 9, 255],
  ]);
  const { data, width, height } = reduce(rgba, 3, 2, 2);
  assert.deepEqual([width, height], [2, 1]);
  assert.deepEqual([...data], [4, 10, 20, 10, 9, 9]);
});

test("without reduction, the pixels stay as they are, without transparency", () => {
  const { data } = reduce(Uint8ClampedArray.of(1, 2, 3, 255, 4, 5, 6, 255), 2, 1, 1);
  assert.deepEqual([...data], [1, 2, 3, 4, 5, 6]);
});

test("a name below one half is a guess, and unknown is neither", () => {
  assert.equal(kindOf(answerOf("cup", 0.9)), "known");
  assert.equal(kindOf(answerOf("cup", 0.49)), "maybe");
  assert.equal(kindOf(answerOf(null, 0.3)), "unknown");
});

test("runners-up have a chance, and are not the answer", () => {
  assert.deepEqual(runnersUp(answerOf("cup", 0.6)).map(({ label }) => label), ["cat"]);
  assert.deepEqual(runnersUp(answerOf(null, 0.6)).map(({ label }) => label), ["cup", "cat"]);
});

test("the reasons are the nearest examples of the label, and of the next", () => {
  const labels = ["cup", "cat", "cup", "cup", "cup"];
  assert.deepEqual(reasonsOf(answerOf("cup", 0.6), labels), [
    { key: "answer.like", label: "cup", examples: [2, 0, 4] },
    { key: "answer.unlike", label: "cat", examples: [1] },
  ]);
  const [closest, ...more] = reasonsOf(answerOf(null, 0.9), labels);
  assert.equal(closest.key, "answer.closest");
  assert.deepEqual(more, []);
  assert.deepEqual(reasonsOf({ ...answerOf("cup", 0.9), distances: null }, []), []);
});

test("the language is the first of the browser's that there is", () => {
  assert.equal(chooseLanguage(["fr-CH", "de"], ["en", "de"]), "de");
  assert.equal(chooseLanguage(["xx"], ["en", "de"]), "en");
  assert.equal(chooseLanguage([], ["en"]), "en");
});
