// @ts-check
// The tray: pictures that wait to be named, each with its guess, those most worth naming first.

import { answerEvents, clearAnswer, showAnswer, shownPicture } from "./answer.js";
import { connectionEvents, connectionState } from "./connection.js";
import { find, sleep } from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { labelNames, memory, memoryEvents, syncTo } from "./memory.js";
import {
  describeLearned, describeLearnedMany, findSendProblem, groupAlike, MAX_DIGESTS, recognizeMany,
  teach, teachMany,
} from "./teaching.js";
import { drawTray } from "./tiles.js";
import { attempt, notify } from "./toasts.js";
import {
  chosenOf, EMPTY_TRAY, filesOf, foldersOf, isOutdated, keysOf, ownOf, picturesOf, sorted,
  unknownOf, waitingOf, withAlike, withAnswers, withAsking, withChosen, withDenied, withoutFolders,
  withoutPictures, withPictures, withRanks, withRestored, withSkipped,
} from "./tray_state.js";
import { openTrayStore } from "./tray_store.js";
import { say } from "./words.js";

/** @import { ApiError } from "./api.js" */
/** @import { Camera } from "./camera.js" */
/** @import { TrayStore } from "./tray_store.js" */
/** @import { TrayPicture } from "./types.d.ts" */

/**
 * Tells of "changed" when photos come, go, are selected or taught; of "left" (detail: names) when
 * photos of the inbox have left for good.
 */
export const trayEvents = new EventTarget();

let tray = EMPTY_TRAY;
let nextKey = 1;
/** @type {AbortController | null} */
let request = null;
/** @type {Camera} */
let camera;
/** @type {TrayStore | null} */
let store = null;
let storedFor = ""; // the memory whose photos were loaded
let isKeeping = true; // this browser keeps photos

/** @param {Camera} theCamera */
export function setUpTray(theCamera) {
  camera = theCamera;
  find("stop").addEventListener("click", () => (request ? request.abort() : askAboutSkipped()));
  find("select-all").addEventListener("click", () => chooseWhere(() => true));
  find("select-none").addEventListener("click", () => chooseWhere(() => false));
  find("discard").addEventListener("click", () => discard(keysOf(chosenOf(tray))));
  answerEvents.addEventListener("taught", (event) => {
    const { key } = /** @type {CustomEvent} */ (event).detail;
    const taught = picturesOf(tray, [key]);
    if (!taught.length) return;
    removePictures([key]);
    tellLeft(taught);
  });
  connectionEvents.addEventListener("back", ask);
  connectionEvents.addEventListener("changed", loadStored);
  window.addEventListener("beforeunload", (event) => countLost() && event.preventDefault());
  memoryEvents.addEventListener("opened", () => (tray = { ...tray, revision: null }));
  memoryEvents.addEventListener("changed", ask);
  draw();
}

/** Numbers of the photos that wait, that are selected, and that are being taught. */
export const trayCounts = () => ({
  waiting: tray.pictures.length,
  selected: chosenOf(tray).length,
  learning: tray.learning.length,
});

/** @param {number | undefined} key */
const has = (key) => tray.pictures.some((picture) => picture.key === key);

function draw() {
  drawTray(tray, {
    choose,
    chooseOnly,
    discard: (key) => discard([key]),
    accept: teachPictures,
    deny: (key, label) => update(withDenied(tray, key, label)),
    endQuestions: () => update({ ...tray, taught: null }),
    learnFolders,
    dropFolders: () => (update(withoutFolders(tray)), ask()),
    discardMany: discard,
    dismiss: (problems) =>
      update({ ...tray, problems: tray.problems.filter((each) => !problems.includes(each)) }),
  });
  trayEvents.dispatchEvent(new Event("changed"));
  store?.keep(ownOf(tray.pictures), showLost);
  showLost();
}

/** @param {typeof tray} changed */
function update(changed) {
  tray = changed;
  draw();
}

/**
 * Take up the photos that were left for this memory, by this tab or by one that is gone. Where
 * another memory was opened, those in the tray are for that one from now on.
 */
async function loadStored() {
  const { name } = memory;
  if (!connectionState.connected || storedFor === name) return;
  storedFor = name;
  store?.keep([], () => {});
  store = null;
  const opened = await openTrayStore(name);
  if (storedFor !== name) return;
  isKeeping = opened !== null;
  store = opened?.store ?? null;
  const entered = (opened?.pictures ?? []).map((stored) => {
    const picture = makePicture(stored.blob, stored.name, stored.folder);
    store?.adopt(picture.key, stored);
    return picture;
  });
  update(withPictures(tray, entered));
  if (entered.length) ask();
}

/** Count the photos that would be lost if the page were closed now. */
const countLost = () => (store?.countLost ?? countAll)(ownOf(tray.pictures));

/** @param {TrayPicture[]} pictures */
const countAll = (pictures) => pictures.length;

/**
 * Put photos of the server's inbox into the tray; it keeps them until they are named or removed.
 * @param {File[]} files
 */
export function addInboxPictures(files) {
  if (!files.length) return;
  const entered = files.map((file) => ({ ...makePicture(file, null, null), inbox: true }));
  update(withChosen(withPictures(tray, entered), unlessIn(entered)));
  ask();
}

/**
 * Choose what was chosen, but none of these: they came by themselves.
 * @param {TrayPicture[]} entered
 * @returns {(picture: TrayPicture) => boolean}
 */
function unlessIn(entered) {
  const keys = new Set(keysOf(entered));
  return ({ key, chosen }) => chosen && !keys.has(key);
}

/**
 * Remove photos of the inbox that somebody else has named or removed.
 * @param {string[]} names
 */
export function removeInboxPictures(names) {
  const gone = tray.pictures.filter(({ inbox, name }) => inbox && names.includes(name));
  const free = gone.filter(({ key }) => !tray.learning.includes(key));
  if (free.length) removePictures(keysOf(free));
}

/** Say how many photos the browser cannot keep. */
function showLost() {
  const lost = isKeeping && !store?.isFull(tray.pictures) ? 0 : countLost();
  find("tray-lost").hidden = lost === 0;
  find("tray-lost").textContent = lost ? say("tray.lost", { count: lost }) : "";
}

/**
 * Put files or frames into the tray, and ask about them.
 * @param {Blob[]} blobs
 * @param {Map<Blob, string>} [folders] the names of their folders, as far as they have one
 */
export function addPictures(blobs, folders = new Map()) {
  const entered = [];
  const problems = [...tray.problems];
  for (const blob of blobs) {
    const name = blob instanceof File ? blob.name : say("tray.picture");
    const problem = findSendProblem(blob, name);
    if (problem) problems.push(problem);
    else entered.push(makePicture(blob, null, folders.get(blob) ?? null));
  }
  tray = withPictures({ ...tray, problems }, entered);
  draw();
  ask();
}

/**
 * @param {Blob} blob
 * @param {string | null} given its name, if it had one before
 * @param {string | null} folder
 * @returns {TrayPicture}
 */
function makePicture(blob, given, folder) {
  const key = nextKey;
  nextKey += 1;
  const name = given ?? (blob instanceof File ? blob.name : `camera-${key}.jpg`);
  const picture = { key, name, blob, folder, url: URL.createObjectURL(blob) };
  const fresh = { seen: null, answer: null, skipped: false, rank: 0, denied: [], inbox: false };
  return { ...picture, ...fresh, chosen: true };
}

/** @param {(picture: TrayPicture) => boolean} test */
function chooseWhere(test) {
  tray = withChosen(tray, test);
  draw();
}

/**
 * Tick or untick a picture; without a camera, it is also the one that the answer is about.
 * @param {number} key
 * @param {boolean} yes
 */
function choose(key, yes) {
  tray = withChosen(tray, (picture) => (picture.key === key ? yes : picture.chosen));
  if (yes) present(key);
  draw();
}

/**
 * Choose only this one, to name it.
 * @param {number} key
 */
function chooseOnly(key) {
  chooseWhere((picture) => picture.key === key);
  present(key);
  find("name").focus();
}

/**
 * Show the answer about a picture, unless the camera is on.
 * @param {number | undefined} key
 */
function present(key) {
  const picture = tray.pictures.find((each) => each.key === key);
  if (camera.state !== "on" && picture?.answer) showAnswer(picture.answer, picture);
}

/** Ask about what was not asked about yet; then about all by digest, for their order. */
async function ask() {
  if (request || !connectionState.connected || connectionState.problem) return;
  request = new AbortController();
  const { signal } = request;
  update(withAsking(tray, true));
  await attempt(async () => {
    while (waitingOf(tray).length || isOutdated(tray, memory.revision)) {
      await (waitingOf(tray).length ? askAbout(waitingOf(tray), signal) : askAgainAndSort(signal));
    }
  });
  if (signal.aborted) tray = withSkipped(tray, true);
  request = null;
  update(withAsking(tray, false));
}

/** Ask about those after all that were left when someone said stop. */
function askAboutSkipped() {
  tray = withSkipped(tray, false);
  ask();
}

/** @param {TrayPicture[]} pictures @param {AbortSignal} signal */
async function askAbout(pictures, signal) {
  const all = pictures.length;
  let done = 0;
  tray = { ...tray, progress: { done, all }, unsorted: true };
  draw();
  await recognizeMany(
    pictures,
    (group, answers) => {
      takeAnswers(group, answers);
      done += group.length;
      tray = { ...tray, progress: { done, all } };
      draw();
    },
    signal,
  );
}

/** @param {TrayPicture[]} group @param {import("./types.d.ts").Answers["answers"]} answers */
function takeAnswers(group, answers) {
  const shown = shownPicture();
  tray = withAnswers(tray, group, answers);
  const keys = keysOf(group);
  const urls = new Set(picturesOf(tray, keys).map(({ url }) => url));
  for (const { url } of group) if (!urls.has(url)) URL.revokeObjectURL(url);
  replaceShown(shown?.key, keys);
  present(keys.findLast((key) => picturesOf(tray, [key])[0]?.answer));
}

/**
 * Ask about all again, by digest, and put those most worth naming first.
 * @param {AbortSignal} signal
 */
async function askAgainAndSort(signal) {
  const { revision } = memory;
  const shown = shownPicture();
  await rank(tray.pictures, 0, signal);
  const first = tray.pictures.slice(0, MAX_DIGESTS);
  // The first of all groups, among themselves.
  if (first.length < tray.pictures.length) await rank(first, -1, signal);
  const groups = await groupAlike(filesOf(unknownOf(tray)), signal);
  tray = { ...withAlike(tray, groups), revision, unsorted: false };
  present(shown?.key);
}

/**
 * Ask about pictures, and sort by the order that the server gives; groups take turns.
 * @param {TrayPicture[]} pictures
 * @param {number} base
 * @param {AbortSignal} signal
 */
async function rank(pictures, base, signal) {
  await recognizeMany(
    pictures.filter((picture) => picture.seen),
    (group, answers, order) => {
      takeAnswers(group, answers);
      tray = withRanks(tray, group, order, base);
    },
    signal,
  );
  tray = sorted(tray);
}

/**
 * Teach the photos that are selected; true if it was done.
 * @param {string} label
 * @param {(error: ApiError) => boolean} isTold
 */
export const teachSelected = (label, isTold) =>
  teachPictures(label, keysOf(chosenOf(tray)), isTold);

/**
 * Teach pictures of the tray; they leave it, and come back if that is undone.
 * @param {string} label
 * @param {number[]} keys
 * @param {(error: ApiError) => boolean} [isTold]
 */
async function teachPictures(label, keys, isTold) {
  if (tray.learning.length) return false;
  tray = { ...tray, learning: keys };
  draw();
  await untilSeen(keys);
  const pictures = picturesOf(tray, keys);
  const result = await attempt(() => teach(label, pictures), isTold);
  tray = { ...tray, learning: [] };
  if (result) {
    tray = { ...tray, problems: [...tray.problems, ...result.problems], taught: label };
    removePictures(keys);
    notifyUndoable(describeLearned(label, result), result.revision, {
      steps: result.steps,
      undone: () => restore(pictures),
      gone: () => release(pictures),
    });
    syncTo(result.revision);
  }
  draw();
  return Boolean(result);
}

/** Teach all photos of folders by the names of these, in one step; undone, they come back. */
async function learnFolders() {
  if (tray.learning.length) return;
  const keys = foldersOf(tray, labelNames()).flatMap(([, pictures]) => keysOf(pictures));
  update({ ...tray, learning: keys });
  await untilSeen(keys);
  // Some may have turned out to be known, or unreadable.
  const things = foldersOf(tray, labelNames());
  const pictures = things.flatMap(([, some]) => some);
  const { signal } = new AbortController();
  const result = things.length ? await attempt(() => teachMany(things, signal)) : undefined;
  tray = { ...tray, learning: [] };
  if (result) {
    removePictures(keysOf(pictures));
    notifyUndoable(describeLearnedMany(things.length, result), result.revision, {
      steps: result.steps,
      undone: () => restore(pictures),
      gone: () => release(pictures),
    });
    syncTo(result.revision);
  }
  draw();
}

/**
 * Wait until these pictures were asked about, so that they can be taught by digest, in one step.
 * @param {number[]} keys
 */
async function untilSeen(keys) {
  while (request && picturesOf(tray, keys).some((picture) => !picture.seen)) await sleep(30);
}

/** @param {number[]} keys */
function discard(keys) {
  const pictures = picturesOf(tray, keys);
  removePictures(keys);
  const gone = () => setTimeout(() => release(pictures)); // unless it was undone
  const undo = () => restore(pictures);
  notify(say("tray.removed", { count: pictures.length }), { undo, gone });
}

/** @param {number[]} keys */
function removePictures(keys) {
  const shown = shownPicture();
  tray = withoutPictures(tray, keys);
  replaceShown(shown?.key, keys);
  draw();
}

/**
 * Show another answer if the picture on the screen is among those that have left.
 * @param {number | undefined} shown
 * @param {number[]} left
 */
function replaceShown(shown, left) {
  if (shown === undefined || !left.includes(shown) || has(shown) || camera.state === "on") return;
  const other = tray.pictures.find((picture) => picture.answer);
  if (other) present(other.key);
  else clearAnswer(say("answer.idle"));
}

/** @param {TrayPicture[]} pictures */
function restore(pictures) {
  tray = withRestored(tray, pictures);
  draw();
  ask();
}

/**
 * Give the memory of pictures back that have left for good.
 * @param {TrayPicture[]} pictures
 */
function release(pictures) {
  const left = pictures.filter(({ key }) => !has(key));
  for (const { url } of left) URL.revokeObjectURL(url);
  tellLeft(left);
}

/** @param {TrayPicture[]} pictures */
function tellLeft(pictures) {
  const names = pictures.flatMap(({ inbox, name }) => (inbox ? name : []));
  if (names.length) trayEvents.dispatchEvent(new CustomEvent("left", { detail: names }));
}
