// @ts-check
// The tray: pictures that wait to be named, each with its guess, those most worth naming first.

import { answerEvents, clearAnswer, showAnswer, shownPicture } from "./answer.js";
import { setUpCombobox } from "./combobox.js";
import { connectionEvents, connectionState } from "./connection.js";
import { count, find, sleep } from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { labelNames, memory, memoryEvents, syncTo } from "./memory.js";
import {
  describeLearned, findSendProblem, MAX_DIGESTS, recognizeMany, teach,
} from "./teaching.js";
import { drawTray } from "./tiles.js";
import { attempt, notify } from "./toasts.js";
import {
  chosenOf, EMPTY_TRAY, isOutdated, keysOf, picturesOf, sorted, waitingOf, withAnswers, withAsking,
  withChosen, withoutPictures, withPictures, withRanks, withRestored, withSkipped,
} from "./tray_state.js";

/** @import { Camera } from "./camera.js" */
/** @import { TrayPicture } from "./types.d.ts" */

let tray = EMPTY_TRAY;
let nextKey = 1;
/** @type {AbortController | null} */
let request = null;
/** @type {Camera} */
let camera;

/** @param {Camera} theCamera */
export function setUpTray(theCamera) {
  camera = theCamera;
  setUpCombobox(find("name"), labelNames);
  find("name-form").addEventListener("submit", (event) => (event.preventDefault(), teachChosen()));
  find("name").addEventListener("input", () => showNameProblem(""));
  find("stop").addEventListener("click", () => (request ? request.abort() : askAboutSkipped()));
  find("select-all").addEventListener("click", () => chooseWhere(() => true));
  find("select-none").addEventListener("click", () => chooseWhere(() => false));
  find("discard").addEventListener("click", () => discard(keysOf(chosenOf(tray))));
  answerEvents.addEventListener("taught", (event) => {
    const { key } = /** @type {CustomEvent} */ (event).detail;
    if (has(key)) removePictures([key]);
  });
  connectionEvents.addEventListener("back", ask);
  memoryEvents.addEventListener("changed", ask);
  draw();
}

/** @param {number | undefined} key */
const has = (key) => tray.pictures.some((picture) => picture.key === key);

function draw() {
  drawTray(tray, {
    choose,
    chooseOnly,
    discard: (key) => discard([key]),
    accept: teachPictures,
    dismiss: (problem) => {
      tray = { ...tray, problems: tray.problems.filter((each) => each !== problem) };
      draw();
    },
  });
}

/**
 * Put files or frames into the tray, and ask about them.
 * @param {Blob[]} blobs
 */
export function addPictures(blobs) {
  const entered = [];
  const problems = [...tray.problems];
  for (const blob of blobs) {
    const name = blob instanceof File ? blob.name : "the picture";
    const message = findSendProblem(blob, name);
    if (message) problems.push({ picture: name, message });
    else entered.push(makePicture(blob));
  }
  tray = withPictures({ ...tray, problems }, entered);
  showNameProblem("");
  draw();
  ask();
}

/** @param {Blob} blob @returns {TrayPicture} */
function makePicture(blob) {
  const key = nextKey;
  nextKey += 1;
  const name = blob instanceof File ? blob.name : `camera-${key}.jpg`;
  const picture = { key, name, blob, url: URL.createObjectURL(blob) };
  return { ...picture, seen: null, answer: null, chosen: true, skipped: false, rank: 0 };
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
  tray = withAsking(tray, true);
  await attempt(async () => {
    while (waitingOf(tray).length || isOutdated(tray, memory.revision)) {
      await (waitingOf(tray).length ? askAbout(waitingOf(tray), signal) : askAgainAndSort(signal));
    }
  });
  if (signal.aborted) tray = withSkipped(tray, true);
  request = null;
  tray = withAsking(tray, false);
  draw();
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
  tray = { ...tray, revision, unsorted: false };
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

async function teachChosen() {
  const field = find("name");
  const label = field.value.trim();
  const pictures = chosenOf(tray);
  if (!tray.pictures.length) {
    showNameProblem("Show me a picture of it first: snap, drop, paste or pick one.");
  } else if (!pictures.length) {
    showNameProblem("Choose the pictures that show it, or all.");
  } else if (!label) {
    field.focus();
    showNameProblem("What is it? Type its name.");
  } else if (await teachPictures(label, keysOf(pictures))) field.value = "";
}

/**
 * Teach pictures of the tray; they leave it, and come back if that is undone.
 * @param {string} label
 * @param {number[]} keys
 */
async function teachPictures(label, keys) {
  if (tray.learning.length) return false;
  tray = { ...tray, learning: keys };
  draw();
  await untilSeen(keys);
  const pictures = picturesOf(tray, keys);
  const result = await attempt(() => teach(label, pictures).catch(showLabelError));
  tray = { ...tray, learning: [] };
  if (result) {
    tray = { ...tray, problems: [...tray.problems, ...result.problems] };
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

/**
 * Say what is wrong with a name where it was typed.
 * @param {import("./api.js").ApiError} error
 */
function showLabelError(error) {
  if (error.kind !== "label") throw error;
  showNameProblem(error.message);
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
  notify(`Removed ${count(pictures.length, "photo")}.`, { undo, gone });
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
  else clearAnswer("Show me something");
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
  for (const { key, url } of pictures) if (!has(key)) URL.revokeObjectURL(url);
}

/** @param {string} text */
function showNameProblem(text) {
  find("name-problem").textContent = text;
  find("name").setAttribute("aria-invalid", String(Boolean(text)));
}

/**
 * Put a name into the field, ready for pictures of it.
 * @param {string} label
 */
export function prepareName(label) {
  find("name").value = label;
  showNameProblem("");
  const snap = find("snap");
  (snap.hidden ? find(camera.state === "insecure" ? "photo" : "pick") : snap).focus();
}
