// The picture of what decides "unknown"; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import test from "node:test";

import { describeUndone } from "../../src/cbcl/web/static/js/editing.js";
import { shapesOf } from "../../src/cbcl/web/static/js/unknown.js";
import { useWords } from "../../src/cbcl/web/static/js/words.js";

const REPORT = {
  known: { mean: 0.6, deviation: 0.1 },
  strange: { mean: 0.3, deviation: 0.05 },
  limit: 0.45,
  known_scores: [0.5, 0.7, 0.7],
  strange_scores: [0.3],
  forecasts: { often: null, sometimes: null, rarely: null },
};

/** @param {string} path */
const pointsOf = (path) =>
  [...path.matchAll(/[ML]([-\d.]+) ([-\d.]+)/g)].map(([, x, y]) => [Number(x), Number(y)]);

/** @param {string} path @returns the x at which a curve is highest */
const peakOf = (path) =>
  pointsOf(path).reduce((best, point) => (point[1] < best[1] ? point : best))[0];

test("the curves stand where their photos are, and the limit between them", () => {
  const [strange, known, , , limit] = shapesOf(REPORT); // from 0.15 to 0.9
  assert.equal(peakOf(strange), 20);
  assert.equal(peakOf(known), 60);
  assert.equal(limit, "M40.00 0V100");
  const heights = [strange, known].map((path) => 66 - Math.min(...pointsOf(path).map(([, y]) => y)));
  assert.ok(Math.abs(heights[0] - 2 * heights[1]) < 0.1); // the same area
});

test("photos of the same score are one mark, a longer one", () => {
  const [, , strange, known] = shapesOf(REPORT);
  assert.deepEqual(strange, "M20 70v12.0");
  assert.deepEqual(known, "M46.5 86v8.4M73.5 86v12.0");
});

test("no photo and no limit is outside, and thousands of photos are as many marks as fit", () => {
  const scores = Array.from({ length: 200_000 }, (_, index) => Math.sin(index) * 2);
  const far = { ...REPORT, limit: -3, known_scores: scores, strange_scores: [] };
  const shapes = shapesOf(far);
  for (const [x, y] of shapes.flatMap(pointsOf)) {
    assert.ok(x >= 0 && x <= 100 && y >= 0 && y <= 100);
  }
  assert.equal(shapes[2], "");
  assert.ok(pointsOf(shapes[3]).length <= 201);
  assert.equal(shapes[4], "M0.00 0V100");
});

test("an undo of the setting says so", () => {
  useWords({ "undo.strangers": "as before" }, "en");
  assert.equal(describeUndone({ action: "strangers", text: "often", labels: [] }), "as before");
});
