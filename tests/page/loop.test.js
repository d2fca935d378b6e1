// State of the loop: show, name, judge, and again; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import * as answers from "../../src/cbcl/web/static/js/answer_state.js";
import { isAboutAnswer, targetOf } from "../../src/cbcl/web/static/js/naming_state.js";
import * as recordings from "../../src/cbcl/web/static/js/recording_state.js";
import { describePraise } from "../../src/cbcl/web/static/js/teaching.js";
import { useWords } from "../../src/cbcl/web/static/js/words.js";

const { NO_ANSWER, isHeld, withAnswer, withHold, withoutHolds } = answers;

const words = new URL("../../src/cbcl/web/static/words/en.json", import.meta.url);
useWords(JSON.parse(readFileSync(words, "utf8")), "en");

const live = { name: "camera.jpg", live: true };
const NAMES = ["ant", "bee", "cat", "mug"];

function answerOf(label, ranking = NAMES) {
  const guesses = ranking.map((name) => ({ label: name, confidence: 0.25 }));
  return { seen: "digest", label, confidence: 0.9, ranking: guesses, evidence: [], revision: 5 };
}

test("a held answer stays until the last reason is gone, and nothing cannot be held", () => {
  const early = withHold(NO_ANSWER, "name", true);
  assert.ok(!isHeld(early));
  const held = withAnswer(early, answerOf("mug"), live);
  assert.ok(isHeld(held), "the first answer is held for who waits for it");
  assert.equal(withAnswer(held, answerOf("cat"), live), held);
  const twice = withHold(held, "pointer", true);
  assert.equal(withHold(twice, "pointer", true), twice);
  assert.ok(isHeld(withHold(twice, "pointer", false)));
  const free = withHold(withHold(twice, "pointer", false), "name", false);
  assert.equal(withAnswer(free, answerOf("cat"), live).current.answer.label, "cat");
});

test("what was taught is held no longer, whatever held it", () => {
  let state = withAnswer(NO_ANSWER, answerOf("mug"), live);
  for (const reason of ["pointer", "keyboard", "name"]) state = withHold(state, reason, true);
  assert.ok(!isHeld(withoutHolds(state)));
  assert.equal(withoutHolds(withoutHolds(state)).current, state.current);
});

test("choices are of the answer on the screen: all others, and never the one that was said", () => {
  let shown = [];
  for (const label of [...NAMES, null, ...NAMES]) {
    const answer = answerOf(label);
    shown = answers.chipLabels(answer, NAMES, shown);
    assert.deepEqual([...shown].sort(), NAMES.filter((name) => name !== label));
  }
});

test("choices keep their places while they are the same, whatever is likelier", () => {
  const [one, other] = [answerOf("mug", ["mug", "cat", "bee"]), answerOf("mug", ["mug", "bee"])];
  const before = answers.chipLabels(one, NAMES);
  assert.deepEqual(before, ["cat", "bee", "ant"]);
  assert.deepEqual(answers.chipLabels(other, NAMES, before), before);
  assert.deepEqual(answers.chipLabels(other, NAMES), ["bee", "ant", "cat"]);
  assert.deepEqual(answers.chipLabels(other, [...NAMES, "dog"], before), ["bee", "ant", "cat", "dog"]);
});

test("a name is for the selected photos, else for what the camera sees, unless it corrects", () => {
  const kindOf = (waiting, selected, isLive, corrects = false) =>
    targetOf({ waiting, selected, live: isLive, corrects }).kind;
  assert.deepEqual(
    targetOf({ waiting: 5, selected: 3, live: true, corrects: false }),
    { kind: "photos", count: 3 },
  );
  assert.equal(kindOf(0, 0, true), "seen");
  assert.equal(kindOf(3, 3, true, true), "seen");
  assert.equal(kindOf(3, 3, false, true), "shown");
  assert.equal(kindOf(40, 0, true), "select", "never what nobody has looked at yet");
  assert.equal(kindOf(3, 3, null, true), "photos");
  assert.equal(kindOf(0, 0, null), "none");
  assert.deepEqual(["photos", "seen", "shown", "select", "none"].map((kind) =>
    isAboutAnswer({ kind })), [false, true, true, false, false]);
});

test("a yes is thanked for, and it is said whether there was something to learn", () => {
  const said = (copies, moved = {}) => describePraise("cup", { learned: 1, copies, moved });
  assert.equal(said(0), "Thanks, learned a new view of cup.");
  assert.equal(said(1), "Thanks. Nothing new to learn from it.");
  assert.match(said(0, { mug: 1 }), /Moved 1 photo from mug to cup/);
});

/** A small picture: waves that go one way, moved, of some brightness, with noise. */
function pixelsOf(angle, { shift = 0, light = 1, noise = 0 } = {}) {
  const side = recordings.THUMBNAIL_SIDE;
  const pixels = new Uint8ClampedArray(4 * side * side);
  for (let index = 0; index < side * side; index += 1) {
    const [x, y] = [(index % side) + shift, Math.floor(index / side)];
    const wave = Math.sin((x * Math.cos(angle) + y * Math.sin(angle)) / 8);
    const value = light * (120 + 80 * wave) + noise * (((index * 7919) % 13) - 6);
    pixels.fill(value, 4 * index, 4 * index + 3);
  }
  return pixels;
}

test("a recording keeps frames that differ, and not those of a trembling hand", () => {
  let recording = recordings.withFrame(recordings.NO_RECORDING, pixelsOf(0));
  for (const [shift, light, noise] of [[1, 1, 0], [0, 1.2, 0], [0, 0.7, 0], [0, 1, 3], [-1, 1.1, 2]]) {
    recording = recordings.withFrame(recording, pixelsOf(0, { shift, light, noise }));
  }
  assert.deepEqual([recording.kept.length, recording.seen], [1, 6]);
  recording = recordings.withFrame(recording, pixelsOf(0.5));
  assert.deepEqual([recording.kept.length, recording.seen], [2, 7]);
  recording = recordings.withFrame(recording, pixelsOf(0));
  assert.equal(recording.kept.length, 2, "what was there before is not new");
  assert.equal(recordings.NO_RECORDING.seen, 0);
});

test("a wall gives one view, however noisy", () => {
  let recording = recordings.NO_RECORDING;
  for (let turn = 0; turn < 20; turn += 1) {
    const grey = pixelsOf(0).map((_, index) => 128 + ((index * 31 * (turn + 1)) % 5));
    recording = recordings.withFrame(recording, grey);
  }
  assert.equal(recording.kept.length, 1);
});

test("a recording has enough at twelve views", () => {
  let recording = recordings.NO_RECORDING;
  const counts = [];
  for (let turn = 0; !recordings.isEnough(recording); turn += 1) {
    recording = recordings.withFrame(recording, pixelsOf(0.4 * turn, { shift: 5 * turn }));
    counts.push(recording.kept.length);
  }
  assert.equal(counts.at(-1), recordings.ENOUGH_VIEWS);
  assert.equal(recordings.ENOUGH_VIEWS, 12);
});
