// @ts-check
// The pure state of the test view.

import assert from "node:assert/strict";
import test from "node:test";
import {
  asCsv, countResults, knownName, resultOf,
} from "../../src/cbcl/web/static/js/test_state.js";

const LABELS = ["cup", "Key"];
let keys = 0;

/** @param {string | null} label @param {string | null} truth @param {object} more */
const photo = (label, truth, more = {}) => ({
  key: (keys += 1),
  name: `${keys}.jpg`,
  blob: new Blob(),
  url: "",
  seen: null,
  truth,
  problem: null,
  answer: { seen: "", label, confidence: 0.5, ranking: [], evidence: [], revision: 1, ...more },
});

test("a folder names a thing however it is spelled, or one that is not known", () => {
  assert.equal(knownName(" CUP", LABELS), "cup");
  assert.equal(knownName("Key", LABELS), "Key");
  assert.equal(knownName("moon", LABELS), "");
});

test("of what is not known, not knowing is right", () => {
  assert.equal(resultOf(photo("cup", "Cup"), LABELS), "right");
  assert.equal(resultOf(photo("cup", "key"), LABELS), "wrong");
  assert.equal(resultOf(photo(null, "key"), LABELS), "unknown");
  assert.equal(resultOf(photo(null, "moon"), LABELS), "right");
  assert.equal(resultOf(photo("cup", "moon"), LABELS), "wrong");
  assert.equal(resultOf(photo(null, ""), LABELS), "right");
  assert.equal(resultOf(photo("cup", null), LABELS), "unjudged");
  assert.equal(resultOf(photo("cup", "cup", { taught: "cup" }), LABELS), "taught");
  assert.equal(resultOf(photo("cup", "cup", { taught: "" }), LABELS), "taught");
  assert.equal(resultOf({ ...photo("cup", "cup"), answer: null }, LABELS), "waiting");
  assert.equal(resultOf({ ...photo("cup", "cup"), problem: "broken." }, LABELS), "broken");
});

test("what is left out or not judged is not counted", () => {
  const photos = [
    photo("cup", "cup"), photo("cup", " CUP"), photo(null, "cup"), photo("cup", "key"),
    photo(null, "moon"), photo("cup", null), photo("cup", "cup", { taught: "cup" }),
  ];
  const { total, things } = countResults(photos, LABELS);
  assert.deepEqual(total, { photos: 5, right: 3, wrong: 1, unknown: 1 });
  assert.deepEqual(things.get("cup"), { photos: 3, right: 2, wrong: 0, unknown: 1 });
  assert.deepEqual(things.get("moon"), { photos: 1, right: 1, wrong: 0, unknown: 0 });
  assert.deepEqual([...things.keys()], ["cup", "Key", "moon"]);
});

test("a table has a line for each photo, and no cell is a formula", () => {
  keys = 0;
  const odd = { ...photo("cup", '=1+"2"'), name: "a,b.jpg" };
  assert.equal(
    asCsv([odd, photo(null, ""), photo("cup", null)], LABELS),
    "photo,truth,answer,confidence,result\r\n" +
      '"a,b.jpg","\'=1+""2""",cup,0.500,wrong\r\n' +
      "2.jpg,unknown,unknown,0.500,right\r\n",
  );
});
