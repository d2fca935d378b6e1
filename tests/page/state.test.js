// State of the answer and of the tray, and pictures in requests; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

import * as answers from "../../src/cbcl/web/static/js/answer_state.js";
import { matchNames } from "../../src/cbcl/web/static/js/combobox.js";
import {
  describeLearned, splitIntoRequests, withoutDigests,
} from "../../src/cbcl/web/static/js/teaching.js";
import * as trays from "../../src/cbcl/web/static/js/tray_state.js";
import { percent, say, sayNodes, useWords } from "../../src/cbcl/web/static/js/words.js";

const { NO_ANSWER } = answers;
const english = new URL("../../src/cbcl/web/static/words/en.json", import.meta.url);
useWords(JSON.parse(await readFile(english, "utf-8")), "en");

function answerOf(label, confidence = 0.9, ranking = [label, "cat", "dog"]) {
  const guesses = ranking.map((name) => ({ label: name, confidence: 0.1 }));
  return { seen: "digest", label, confidence, ranking: guesses, evidence: [], revision: 5 };
}

function pictureOf(key, fields = {}) {
  const picture = { key, name: `${key}.jpg`, url: `blob:${key}`, blob: new Blob(["x"]) };
  const fresh = { seen: null, answer: null, chosen: true, skipped: false, rank: 0 };
  return { ...picture, ...fresh, folder: null, denied: [], inbox: false, ...fields };
}

const trayOf = (...pictures) => ({ ...trays.EMPTY_TRAY, pictures });
const keys = (tray) => trays.keysOf(tray.pictures);
const live = { name: "camera.jpg", live: true };

test("a live answer is steady once three in a row say the same, and only once", () => {
  let state = NO_ANSWER;
  const steady = ["mug", "mug", "mug", "mug", "cat", "mug"].map((label) => {
    state = answers.withAnswer(state, answerOf(label), live);
    return answers.isNewlySteady(state);
  });
  assert.deepEqual(steady, [false, false, true, false, false, false]);
});

test("an answer about a file is steady at once, and again after it was taught", () => {
  const file = { name: "mug.jpg" };
  let state = answers.withAnswer(NO_ANSWER, answerOf("mug"), file);
  assert.ok(answers.isNewlySteady(state));
  state = answers.withAnswer(state, answerOf("mug"), file);
  assert.ok(!answers.isNewlySteady(state));
  state = answers.withAnswer(answers.withoutStreak(state), answerOf("mug"), file);
  assert.ok(answers.isNewlySteady(state));
});

test("an answer from before the last change is outdated", () => {
  assert.ok(answers.isOutdated(answerOf("mug"), 6));
  assert.ok(!answers.isOutdated(answerOf("mug"), 5));
  assert.ok(!answers.isOutdated(answerOf("mug"), null));
});

test("headlines tell the three kinds of answers apart", () => {
  const all = [answerOf("mug"), answerOf(null), answerOf(null, null, [])];
  assert.deepEqual(all.map(answers.kindOf), ["known", "unknown", "nothing"]);
  assert.equal(answers.headlineOf(all[0]), "mug");
  assert.match(answers.headlineOf(all[1]), /don’t know/);
  assert.match(answers.headlineOf(all[2]), /nothing yet/);
});

test("a label below half is a question, and guesses of 0 % are not shown", () => {
  assert.equal(answers.headlineOf(answerOf("mug", 0.49)), "Maybe mug?");
  assert.equal(answers.headlineOf(answerOf("mug", 0.5)), "mug");
  assert.ok(!answers.isDoubtful(answerOf(null, 0.3)));
  const ranking = [["mug", 0.9], ["cat", 0.0051], ["dog", 0.005]];
  const guesses = ranking.map(([label, confidence]) => ({ label, confidence }));
  const shown = answers.runnersUp({ ...answerOf("mug"), ranking: guesses });
  assert.deepEqual(shown.map((guess) => percent(guess.confidence)), ["1%"]);
});

test("chips are all other labels if they are few, else those that were guessed", () => {
  const answer = answerOf("mug");
  const few = ["ant", "cat", "dog", "mug"];
  assert.deepEqual(answers.chipLabels(answer, few), ["cat", "dog", "ant"]);
  const many = [...few, "bee", "cow", "elk"];
  assert.deepEqual(answers.chipLabels(answer, many), ["cat", "dog"]);
  assert.deepEqual(answers.runnersUp(null), []);
});

test("reasons are the pictures it looks like, and the next label from 5 % on", () => {
  const evidence = [
    { label: "mug", examples: [4] }, { label: "mug", examples: [5] }, { label: "cat", examples: [1] },
  ];
  const ranked = (label, next) => ({
    ...answerOf(label),
    evidence,
    ranking: [{ label: "mug", confidence: 0.8 }, { label: "cat", confidence: next }],
  });
  const told = (answer) =>
    answers.reasonsOf(answer).map(({ words, label, examples }) => [say(words, { label }), examples]);
  assert.deepEqual(told(ranked("mug", 0.04)), [["Looks like these", [4, 5]]]);
  const both = [["Looks like these", [4, 5]], ["Not these: cat", [1]]];
  assert.deepEqual(told(ranked("mug", 0.05)), both);
  assert.deepEqual(told(ranked(null, 0.3)), [["Closest I know: mug", [4, 5]]]);
  assert.deepEqual(told({ ...ranked("mug", 0.3), evidence: evidence.slice(0, 2) }), both.slice(0, 1));
  assert.deepEqual(told(answerOf(null, null, [])), []);
});

test("what was learned is said: new photos, near-copies, and those that moved", () => {
  const said = (label, learned, copies = 0, moved = {}) =>
    describeLearned(label, { learned, copies, moved });
  assert.equal(said("mug", 3), "Learned 3 photos of mug.");
  assert.equal(said("", 1), "Got it: this is none of the things I know.");
  assert.equal(said("mug", 1, 1), "Nearly the same as a photo I have: nothing new.");
  assert.equal(said("mug", 2, 2), "Nearly the same as photos I have: nothing new.");
  const both = "Learned 2 photos of mug. Moved 1 photo here from cup. "
    + "1 photo was nearly the same as one I have.";
  assert.equal(said("mug", 3, 1, { cup: 1 }), both);
  assert.equal(said("mug", 1, 0, { cup: 1 }), "Moved 1 photo from cup to mug.");
  assert.equal(said("mug", 1, 0, { "": 1 }), "Moved 1 photo from none of these to mug.");
  assert.equal(said("", 1, 0, { mug: 1 }), "Moved 1 photo from mug to none of these.");
});

test("the latest pictures come first; many at once are not chosen", () => {
  const tray = trays.withPictures(trayOf(pictureOf(1)), [pictureOf(2), pictureOf(3)]);
  assert.deepEqual(keys(tray), [3, 2, 1]);
  assert.equal(trays.chosenOf(tray).length, 3);
  const thirteen = Array.from({ length: 13 }, (_, index) => pictureOf(index));
  assert.equal(trays.chosenOf(trays.withPictures(trays.EMPTY_TRAY, thirteen)).length, 0);
});

test("answers are taken by key, and what cannot be read leaves with its reason", () => {
  const [one, two] = [pictureOf(1), pictureOf(2)];
  const tray = trayOf(one, two, pictureOf(3));
  const failure = { error: { kind: "picture", message: "2.jpg is broken" } };
  const after = trays.withAnswers(tray, [one, two], [answerOf("mug"), failure]);
  assert.deepEqual(keys(after), [1, 3]);
  assert.equal(after.pictures[0].seen, "digest");
  const problem = { picture: "2.jpg", message: "2.jpg is broken", problem: undefined };
  assert.deepEqual(after.problems, [problem]);
  assert.deepEqual(keys({ pictures: trays.waitingOf(after) }), [3]);
  assert.equal(tray.pictures[0].answer, null, "the state before is not changed");
});

test("stopping skips what has no answer, twice as well; going on skips nothing", () => {
  const tray = trayOf(pictureOf(1, { answer: answerOf("mug") }), pictureOf(2), pictureOf(3));
  const stopped = trays.withSkipped(trays.withSkipped(tray, true), true);
  assert.deepEqual(keys({ pictures: trays.skippedOf(stopped) }), [2, 3]);
  assert.equal(trays.waitingOf(stopped).length, 0);
  assert.equal(trays.waitingOf(trays.withSkipped(stopped, false)).length, 2);
});

test("progress is kept while something is skipped", () => {
  const progress = { done: 1, all: 20 };
  const idle = { ...trayOf(pictureOf(1)), progress };
  assert.equal(trays.withAsking(idle, false).progress, null);
  assert.equal(trays.withAsking(trays.withSkipped(idle, true), false).progress, progress);
});

test("pictures are sorted by the order that the server gives", () => {
  const group = [pictureOf(1), pictureOf(2), pictureOf(3)];
  const tray = trays.sorted(trays.withRanks(trayOf(...group), group, [2, 0, 1], 0));
  assert.deepEqual(keys(tray), [3, 1, 2]);
  const first = trays.sorted(trays.withRanks(tray, [group[1]], [0], -1));
  assert.deepEqual(keys(first), [2, 3, 1]);
});

test("pictures come back once, and are asked about again", () => {
  const gone = pictureOf(1, { seen: "digest" });
  const left = trays.withoutPictures(trayOf(gone, pictureOf(2)), [1]);
  assert.deepEqual(keys(left), [2]);
  const back = trays.withRestored(trays.withRestored(left, [gone]), [gone]);
  assert.deepEqual(keys(back), [1, 2]);
  assert.ok(trays.isOutdated({ ...back, revision: 5 }, 5));
});

test("a tray is outdated after a change of the memory, if anything was asked", () => {
  const asked = { ...trayOf(pictureOf(1, { seen: "digest" })), revision: 5 };
  assert.ok(!trays.isOutdated(asked, 5));
  assert.ok(trays.isOutdated(asked, 6));
  assert.ok(!trays.isOutdated(trayOf(pictureOf(1)), 6));
});

test("sure guesses of one label are a group, the largest first", () => {
  const labels = ["mug", "cat", "cat", "cat", "mug", "dog", "mug"];
  const sure = [0.9, 0.9, 0.85, 0.8, 0.95, 0.9, 0.79];
  const answerAt = (key) => answerOf(labels[key], sure[key]);
  const pictures = labels.map((_, key) => pictureOf(key, { answer: answerAt(key) }));
  const groups = trays.groupsOf(trayOf(...pictures, pictureOf(9)));
  const named = groups.map(([label, some]) => [label, trays.keysOf(some)]);
  assert.deepEqual(named, [["cat", [1, 2, 3]], ["mug", [0, 4]]]);
});

test("requests hold at most eight files and a hundred pictures, files first", () => {
  const files = Array.from({ length: 10 }, (_, index) => pictureOf(index));
  const digests = Array.from({ length: 95 }, (_, index) => pictureOf(100 + index, { seen: "d" }));
  const groups = splitIntoRequests([...digests, ...files]);
  assert.deepEqual(groups.map((group) => group.length), [100, 5]);
  assert.deepEqual(groups.map((group) => group.filter(({ seen }) => !seen).length), [8, 2]);
  const large = { blob: { size: 30e6 } };
  const alone = splitIntoRequests([large, large, { blob: { size: 70e6 } }]);
  assert.deepEqual(alone.map((group) => group.length), [1, 1, 1]);
});

test("forgotten digests are dropped, all of them if none is named, in copies", () => {
  const group = [pictureOf(1, { seen: "a" }), pictureOf(2, { seen: "b" })];
  assert.deepEqual(withoutDigests(group, ["b"]).map(({ seen }) => seen), ["a", null]);
  assert.deepEqual(withoutDigests(group, []).map(({ seen }) => seen), [null, null]);
  assert.equal(group[1].seen, "b");
});

test("names that begin with what was typed come before those that contain it", () => {
  assert.deepEqual(matchNames(["Teacup", "cup", "mug"], " CUP"), ["cup", "Teacup"]);
});

test("percentages round halves to the even, as the command line does", () => {
  assert.deepEqual([0.125, 0.135, 0.724, 1].map(percent), ["12%", "14%", "72%", "100%"]);
});

test("words take values, numbers and the plural forms of their language", () => {
  const words = { cups: { one: "{count} Tasse", other: "{count} Tassen" }, both: "{a} und {b}" };
  useWords(words, "de");
  assert.equal(say("cups", { count: 1 }), "1 Tasse");
  assert.equal(say("cups", { count: 12345 }), "12.345 Tassen");
  assert.deepEqual(sayNodes("both", { a: "x", b: "{a}" }), ["", "x", " und ", "{a}", ""]);
  assert.equal(say("nobody wrote this"), "nobody wrote this");
  assert.equal(percent(0.5), "50\u00a0%");
});
