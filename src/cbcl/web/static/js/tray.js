// The tray: pictures that wait to be named, each with its guess, those most worth naming first.

import { clear, panel, pictureShown, show } from "./answer.js";
import { sayUndoable } from "./editing.js";
import { offer } from "./combobox.js";
import { connection, state } from "./connection.js";
import { count, find } from "./dom.js";
import { changes, memory, names, reached } from "./memory.js";
import { askMany, DIGESTS, teach, unsendable } from "./teaching.js";
import { drawTray, tileOf } from "./tiles.js";
import { attempt, say } from "./toasts.js";

const SURE = 0.8; // a guess this sure can be accepted with others like it
const GROUPS = 6;
const MANY = 12; // pictures at once, beyond which they are hardly all of one thing

const tray = { pictures: [], problems: [], asking: null, progress: null, learning: 0, asked: null, unsorted: false };
let next = 1;
let camera = null;

export function setUpTray(theCamera) {
  camera = theCamera;
  offer(find("name"), names);
  find("name-form").addEventListener("submit", (event) => (event.preventDefault(), teachChosen()));
  find("name").addEventListener("input", () => complain(""));
  find("stop").addEventListener("click", () => (tray.asking ? tray.asking.abort() : goOn()));
  find("select-all").addEventListener("click", () => chooseWhere(() => true));
  find("select-none").addEventListener("click", () => chooseWhere(() => false));
  find("discard").addEventListener("click", () => discard(chosen()));
  panel.addEventListener("taught", ({ detail: picture }) => tray.pictures.includes(picture) && leave([picture]));
  connection.addEventListener("back", work);
  changes.addEventListener("changed", work);
  draw();
}

/** Put files or frames into the tray, and ask about them. */
export function add(blobs) {
  const taken = blobs.filter((blob) => {
    const problem = unsendable(blob);
    if (problem) tray.problems.push({ picture: blob.name ?? "the picture", message: problem });
    return !problem;
  });
  const entered = taken.map(enter).reverse();
  if (entered.length > MANY) entered.forEach((picture) => (picture.chosen = false));
  tray.pictures.unshift(...entered);
  complain("");
  draw();
  work();
}

function enter(blob) {
  const picture = { key: next, name: blob.name ?? `camera-${next}.jpg`, blob, url: URL.createObjectURL(blob) };
  next += 1;
  Object.assign(picture, { seen: null, answer: null, chosen: true, skipped: false, rank: 0 });
  picture.node = tileOf(picture, { choose, only, discard, accept: (one) => teachThese(one.answer.label, [one]) });
  return picture;
}

const chosen = () => tray.pictures.filter((picture) => picture.chosen);

function chooseWhere(test) {
  tray.pictures.forEach((picture) => (picture.chosen = test(picture)));
  draw();
}

/** A picture was ticked or unticked; without a camera, it is also the one that the answer is about. */
function choose(picture, yes) {
  picture.chosen = yes;
  if (yes) present(picture);
  draw();
}

/** Choose only this one, to name it. */
function only(picture) {
  chooseWhere((one) => one === picture);
  present(picture);
  find("name").focus();
}

function present(picture) {
  if (camera.state !== "on" && picture?.answer) show(picture.answer, picture);
}

/** Look at what was not looked at yet; then ask about all by digest, for their order. */
async function work() {
  if (tray.asking || !state.connected || state.problem) return;
  tray.asking = new AbortController();
  const { signal } = tray.asking;
  await attempt(async () => {
    while (waiting().length || stale()) await (waiting().length ? lookAt(waiting(), signal) : sort(signal));
  });
  if (signal.aborted) waiting().forEach((picture) => (picture.skipped = true));
  tray.asking = null;
  draw();
}

const skipped = () => tray.pictures.filter((picture) => picture.skipped);

/** Ask about those after all that were left when someone said stop. */
function goOn() {
  skipped().forEach((picture) => (picture.skipped = false));
  work();
}

const stale = () => tray.pictures.some((picture) => picture.seen) && (tray.unsorted || tray.asked !== memory.revision);
const waiting = () => tray.pictures.filter((picture) => !picture.answer && !picture.skipped);

async function lookAt(pictures, signal) {
  tray.progress = { done: 0, all: pictures.length };
  tray.unsorted = true;
  draw();
  const each = (group, answers) => {
    take(group, answers);
    tray.progress = { done: tray.progress.done + group.length, all: pictures.length };
    draw();
  };
  await askMany(pictures, each, signal);
}

function take(group, answers) {
  group.forEach((picture, at) => {
    const answer = answers[at];
    if (answer.error) refuse(picture, answer.error.message);
    else Object.assign(picture, { answer, seen: answer.seen });
  });
  present(group.findLast((picture) => picture.answer));
}

/** It cannot be read: it leaves the tray, and the server's sentence stays. */
function refuse(picture, message) {
  tray.problems.push({ picture: picture.name, message });
  leave([picture]);
}

/** Ask about all again, by digest, and put those most worth naming first. */
async function sort(signal) {
  const revision = memory.revision;
  const shown = pictureShown();
  await rank(tray.pictures, 0, signal);
  const first = tray.pictures.slice(0, DIGESTS);
  if (first.length < tray.pictures.length) await rank(first, -1, signal); // the first of all groups, among themselves
  tray.asked = revision;
  tray.unsorted = false;
  if (tray.pictures.includes(shown)) present(shown);
}

/** Ask about pictures, and sort by the order that the server gives; groups take turns. */
async function rank(pictures, least, signal) {
  const each = (group, answers, order) => {
    take(group, answers);
    order.forEach((at, place) => (group[at].rank = least + place / order.length));
  };
  await askMany(pictures.filter((picture) => picture.seen), each, signal);
  tray.pictures.sort((one, other) => one.rank - other.rank);
}

async function teachChosen() {
  const label = find("name").value.trim();
  const pictures = chosen();
  if (!tray.pictures.length) return complain("Show me a picture of it first: snap, drop, paste or pick one.");
  if (!pictures.length) return complain("Choose the pictures that show it, or all.");
  if (!label) return complain("What is it? Type its name.", find("name").focus());
  if (await teachThese(label, pictures)) find("name").value = "";
}

/** Teach pictures of the tray; they leave it, and come back if that is undone. */
async function teachThese(label, pictures) {
  if (tray.learning) return false;
  tray.learning = pictures.length;
  pictures.forEach((picture) => picture.node.classList.add("learning"));
  draw();
  await finished(pictures);
  const left = pictures.filter((picture) => tray.pictures.includes(picture));
  const told = await attempt(() => teach(label, left).catch(misnamed));
  tray.learning = 0;
  pictures.forEach((picture) => picture.node.classList.remove("learning"));
  if (told) {
    tray.problems.push(...told.problems);
    leave(pictures);
    sayUndoable(`Learned ${label} from ${count(told.learned, "picture")}.`, told.revision, {
      steps: told.steps,
      undone: () => restore(pictures),
      gone: () => pictures.forEach(letGo),
    });
    reached(told.revision);
  }
  draw();
  return Boolean(told);
}

/** What is wrong with a name is said where it was typed. */
function misnamed(error) {
  if (error.kind !== "label") throw error;
  complain(error.message);
}

/** Wait until these pictures were looked at, so that they can be taught by digest, in one step. */
async function finished(pictures) {
  while (tray.asking && pictures.some((picture) => !picture.seen && tray.pictures.includes(picture))) {
    await new Promise((done) => setTimeout(done, 30));
  }
}

function discard(pictures) {
  const out = [pictures].flat();
  leave(out);
  const gone = () => setTimeout(() => out.forEach(letGo)); // unless it was undone
  say(`Took out ${count(out.length, "picture")}.`, { undo: () => restore(out), gone });
}

function leave(pictures) {
  const shown = pictureShown();
  tray.pictures = tray.pictures.filter((picture) => !pictures.includes(picture));
  if (pictures.includes(shown) && camera.state !== "on") {
    const other = tray.pictures.find((picture) => picture.answer);
    if (other) present(other);
    else clear("Show me something");
  }
  draw();
}

function restore(pictures) {
  tray.pictures.unshift(...pictures.filter((picture) => !tray.pictures.includes(picture)));
  tray.unsorted = true;
  draw();
  work();
}

function letGo(picture) {
  if (!tray.pictures.includes(picture)) URL.revokeObjectURL(picture.url);
}

/** Sure guesses of the same label, to be accepted together. */
function groups() {
  const found = new Map();
  for (const picture of tray.pictures) {
    const { label, confidence } = picture.answer ?? {};
    if (label && confidence >= SURE) found.set(label, [...(found.get(label) ?? []), picture]);
  }
  const many = [...found].filter(([, pictures]) => pictures.length > 1);
  return many.sort((one, other) => other[1].length - one[1].length).slice(0, GROUPS);
}

function dismiss(problem) {
  tray.problems = tray.problems.filter((one) => one !== problem);
  draw();
}

function complain(text) {
  find("name-problem").textContent = text;
  find("name").setAttribute("aria-invalid", String(Boolean(text)));
}

function draw() {
  if (!tray.asking && !skipped().length) tray.progress = null;
  drawTray(tray, chosen().length, groups(), { accept: teachThese, dismiss });
}

/** Put a name into the field, ready for pictures of it. */
export function prepare(label) {
  find("name").value = label;
  complain("");
  const snap = find("snap");
  (snap.hidden ? find(camera.state === "insecure" ? "photo" : "pick") : snap).focus();
}
