// Many photos: groups, folders, questions, problems, and requests; tools/check-page.sh runs this.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

import { nameFolders } from "../../src/cbcl/web/static/js/file_input.js";
import {
  describeLearnedMany, findSendProblem, splitThings,
} from "../../src/cbcl/web/static/js/teaching.js";
import * as trays from "../../src/cbcl/web/static/js/tray_state.js";
import { useWords } from "../../src/cbcl/web/static/js/words.js";

const english = new URL("../../src/cbcl/web/static/words/en.json", import.meta.url);
useWords(JSON.parse(await readFile(english, "utf-8")), "en");

function pictureOf(key, label, confidence = 0.9, fields = {}) {
  const ranking = [{ label: label ?? "mug", confidence: label ? confidence : 0.3 }];
  const answer = { seen: `digest${key}`, label, confidence, ranking, taught: null };
  const picture = { key, name: `${key}.jpg`, url: `blob:${key}`, blob: new File(["x"], "x.jpg") };
  return { ...picture, seen: answer.seen, answer, chosen: true, folder: null, denied: [], ...fields };
}

const known = (key) => {
  const picture = pictureOf(key, "mug");
  return { ...picture, answer: { ...picture.answer, taught: "mug" } };
};
const trayOf = (...pictures) => ({ ...trays.EMPTY_TRAY, pictures });
const keysOf = (groups) => groups.map(({ pictures }) => trays.keysOf(pictures));

test("groups are of unknown photos, and one that is left alone is none", () => {
  const tray = trayOf(...[1, 2, 3, 4].map((key) => pictureOf(key, null)), pictureOf(5, "mug"));
  const grouped = trays.withAlike(tray, [[3, 1, 5], [2, 4]]);
  assert.deepEqual(keysOf(trays.alikeOf(grouped)), [[3, 1], [2, 4]]);
  assert.deepEqual(keysOf(trays.alikeOf(trays.withoutPictures(grouped, [4]))), [[3, 1]]);
  assert.deepEqual(trays.alikeOf(trays.withoutPictures(grouped, [2, 4, 5])), []); // it is all
});

test("a group keeps its id while it shares photos, so that what is typed stays", () => {
  const tray = trayOf(...[1, 2, 3, 4, 5].map((key) => pictureOf(key, null)));
  const first = trays.withAlike(tray, [[1, 2, 3], [4, 5]]);
  const [a, b] = first.alike.map(({ id }) => id);
  assert.notEqual(a, b);
  const next = trays.withAlike(first, [[5, 4, 3], [1, 2], [9, 8]]);
  assert.deepEqual(next.alike.slice(0, 2).map(({ id }) => id), [b, a]);
  assert.ok(![a, b].includes(next.alike[2].id));
});

test("photos of several things are not chosen together, but what a person chose stays", () => {
  const tray = trayOf(...[1, 2, 3, 4].map((key) => pictureOf(key, null)));
  const one = trays.withAlike(tray, [[1, 2, 3]]);
  assert.equal(trays.chosenOf(one).length, 4);
  const two = trays.withAlike(tray, [[1, 2], [3, 4]]);
  assert.equal(trays.chosenOf(two).length, 0);
  const chosen = trays.withChosen(two, ({ key }) => key < 3);
  assert.equal(trays.chosenOf(trays.withAlike(chosen, [[1, 2], [3, 4]])).length, 2);
});

test("what is known already is in no group, and a file of it is not chosen", () => {
  const tray = trayOf(known(1), known(2), pictureOf(3, "mug"), pictureOf(4, "mug"));
  assert.deepEqual(trays.keysOf(trays.knownOf(tray)), [1, 2]);
  assert.deepEqual(trays.groupsOf(tray).map(([, some]) => trays.keysOf(some)), [[3, 4]]);
  const fresh = trayOf(pictureOf(1, null, 0.9, { answer: null, seen: null }));
  const answered = trays.withAnswers(fresh, fresh.pictures, [known(1).answer]);
  assert.equal(answered.pictures[0].chosen, false);
  const chosen = trays.withChosen(answered, () => true);
  assert.equal(trays.withAnswers(chosen, chosen.pictures, [known(1).answer]).pictures[0].chosen, true);
});

test("folders offer their names for what is not known, and then it is in no other group", () => {
  const [cup, lamp] = [{ folder: "cup" }, { folder: "lamp" }];
  const tray = trayOf(
    pictureOf(1, null, 0.9, lamp), pictureOf(2, null, 0.9, cup), pictureOf(3, "mug", 0.9, cup),
    { ...known(4), ...cup }, pictureOf(5, null),
  );
  const offered = trays.foldersOf(tray, []).map(([label, some]) => [label, trays.keysOf(some)]);
  assert.deepEqual(offered, [["cup", [2, 3]], ["lamp", [1]]]);
  assert.deepEqual(trays.foldersOf(tray, ["Cup", "LAMP"]).map(([label]) => label), ["Cup", "LAMP"]);
  assert.deepEqual(trays.keysOf(trays.unknownOf(tray)), [5]);
  assert.deepEqual(trays.foldersOf(trays.withoutFolders(tray), []), []);
});

test("after a thing was taught, likely photos of it are asked about, unless denied", () => {
  const tray = trayOf(
    pictureOf(1, null), pictureOf(2, "mug", 0.5), pictureOf(3, "cat", 0.5), known(4),
    pictureOf(5, "mug", 0.9), pictureOf(6, "mug", 0.95),
  );
  assert.deepEqual(trays.maybeOf(tray), []);
  const asked = { ...tray, taught: "mug" };
  assert.deepEqual(trays.keysOf(trays.maybeOf(asked)), [2, 1]); // the sure ones are a group
  const denied = trays.withDenied(asked, 2, "mug");
  assert.deepEqual(trays.keysOf(trays.maybeOf(denied)), [1]);
  const one = trays.withoutPictures(asked, [6]);
  assert.deepEqual(trays.keysOf(trays.maybeOf(one)), [5, 2, 1]); // a single one is no group
});

test("problems of one kind are one, with what is the same of them", () => {
  const problems = [
    { picture: "a.heic", message: "a.heic is a HEIC photo: no.", problem: "is a HEIC photo: no" },
    { picture: "b.heic", message: "b.heic is a HEIC photo: no.", problem: "is a HEIC photo: no" },
    { picture: "c.jpg", message: "c.jpg is broken: cut.", problem: "is broken: cut" },
    { picture: "d.jpg", message: "d.jpg is broken: torn.", problem: "is broken: torn" },
    { picture: "e.jpg", message: "e.jpg is odd." },
  ];
  const groups = trays.groupProblems(problems);
  assert.deepEqual(groups.map(({ reason, problems: some }) => [reason, some.length]), [
    ["is a HEIC photo: no", 2], ["is broken", 2], ["is odd", 1],
  ]);
  assert.equal(findSendProblem(new Blob([]), "f.jpg").problem, "is empty");
  assert.equal(findSendProblem(new Blob(["x"]), "f.jpg"), null);
});

const named = (...paths) => {
  const files = paths.map((path) => ({ file: new File([], path), path: path.split("/").slice(0, -1) }));
  const names = nameFolders(files);
  return files.map(({ file }) => names.get(file));
};

test("photos are called as their folders, as the command line does it", () => {
  assert.deepEqual(named("things/cup/1.jpg", "things/lamp/2.jpg"), ["cup", "lamp"]);
  assert.deepEqual(named("cup/1.jpg", "cup/2.jpg", "3.jpg"), ["cup", "cup", undefined]);
  assert.deepEqual(named("cup/1.jpg", "lamp/2.jpg"), ["cup", "lamp"]);
  assert.deepEqual(named("all/things/cup/1.jpg", "all/things/lamp/2.jpg"), ["cup", "lamp"]);
  assert.deepEqual(named("things/cup/1.jpg", "things/cup/day/2.jpg"), ["cup", "cup"]);
  assert.deepEqual(named("things/cup/day/1.jpg", "things/lamp/2.jpg"), ["cup", "lamp"]);
  assert.deepEqual(named("things/cup/1.jpg", "things/2.jpg"), ["cup", "things"]);
});

test("what cameras and systems call a folder is no name of a thing, unless it is beside one", () => {
  const names = [
    "DCIM", "100APPLE", "101_PANA", "202405__", "2026-11-18", "IMG", "IMG_20240501", "Photos",
    "photos 2", "Camera", "Downloads", "New folder", "New folder (2)", "Neuer Ordner",
    "imágenes".normalize("NFD"),
  ];
  for (const name of names) assert.deepEqual(named(`${name}/1.jpg`), [undefined], name);
  assert.deepEqual(named("DCIM/100APPLE/1.jpg", "DCIM/101APPLE/2.jpg"), [undefined, undefined]);
  assert.deepEqual(named("things/camera/1.jpg", "things/cup/2.jpg"), ["camera", "cup"]);
  for (const name of ["cup", "cup 2", "7", "100 euros", "new cup", "photo frame"]) {
    assert.deepEqual(named(`${name}/1.jpg`), [name]);
  }
});

test("as many digests go into a request as its body holds", () => {
  const pictures = Array.from({ length: 1500 }, (_, key) => pictureOf(key, null));
  const parts = splitThings([["cup", pictures.slice(0, 100)], ["lamp", pictures.slice(100)]]);
  const counts = parts.map((part) => part.map(([label, some]) => [label, some.length]));
  assert.deepEqual(counts, [[["cup", 100], ["lamp", 796]], [["lamp", 604]]]);
});

test("what was learned of several things is told in a sentence", () => {
  const learned = { learned: 8, copies: 0, moved: {} };
  assert.equal(describeLearnedMany(2, learned), "Learned 8 photos of 2 things.");
  const nothing = { learned: 2, copies: 2, moved: {} };
  assert.equal(describeLearnedMany(1, nothing), "Nearly the same as photos I have: nothing new.");
});
