// @ts-check
// The test view: photos that were never taught, and how many of them are recognized.

import { isOutdated } from "./answer_state.js";
import { connectionEvents, connectionState } from "./connection.js";
import { button, find, make } from "./dom.js";
import { drawableUrl } from "./drawable.js";
import { labelNames, memory, memoryEvents, NONE } from "./memory.js";
import { figure, scrollBox, section, tableOf } from "./scores.js";
import { findSendProblem, recognizeMany } from "./teaching.js";
import { asCsv, countResults, JUDGED, resultOf } from "./test_state.js";
import { attempt } from "./toasts.js";
import { percent, say, sayNodes } from "./words.js";

/** @import { Answers } from "./types.d.ts" */
/** @import { Counts, Result, TestPhoto } from "./test_state.js" */

const MAX_SHOWN = 200; // photos of a list

/** @type {TestPhoto[]} */
let photos = [];
let nextKey = 1;
/** @type {AbortController | null} */
let request = null;

export function setUpTest() {
  for (const input of [find("test-pick"), find("test-folder")]) {
    input.addEventListener("change", () => {
      const files = [...(input.files ?? [])];
      addTestPhotos(files, new Map(files.flatMap((file) => folderOf(file))));
      input.value = ""; // so that the same can be picked again
    });
  }
  find("test-folder-label").hidden = !("webkitdirectory" in find("test-folder"));
  find("test-clear").addEventListener("click", clear);
  find("test-save").addEventListener("click", save);
  memoryEvents.addEventListener("opened", () => change(() => ({ answer: null })));
  memoryEvents.addEventListener("changed", ask);
  connectionEvents.addEventListener("back", ask);
  draw();
}

export const isTesting = () => !find("test").hidden;

/** @param {File} file @returns {[File, string][]} */
function folderOf(file) {
  const folder = file.webkitRelativePath.split("/").at(-2);
  return folder ? [[file, folder]] : [];
}

/**
 * Test photos; nothing is learned from them. The names of their folders say what they show.
 * @param {File[]} files
 * @param {Map<Blob, string>} [folders]
 */
export function addTestPhotos(files, folders = new Map()) {
  for (const file of files) {
    const key = nextKey;
    nextKey += 1;
    const problem = findSendProblem(file, file.name)?.message ?? null;
    const truth = folders.get(file) ?? null;
    const picture = { key, name: file.name, blob: file, url: URL.createObjectURL(file) };
    photos.push({ ...picture, seen: null, answer: null, truth, problem });
  }
  draw();
  ask();
}

/** @param {(photo: TestPhoto) => Partial<TestPhoto>} update */
function change(update) {
  photos = photos.map((photo) => ({ ...photo, ...update(photo) }));
  draw();
}

const waiting = () =>
  photos.filter(({ answer, problem }) => {
    return problem === null && (answer === null || isOutdated(answer, memory.revision));
  });

/** Ask about what has no answer yet, or one of a memory that knew less. */
async function ask() {
  if (request || !connectionState.connected || connectionState.problem) return;
  request = new AbortController();
  const { signal } = request;
  await attempt(async () => {
    while (waiting().length) await recognizeMany(waiting(), takeAnswers, signal);
  });
  request = null;
  draw();
}

/** @param {TestPhoto[]} group @param {Answers["answers"]} answers */
function takeAnswers(group, answers) {
  const places = new Map(group.map(({ key }, index) => [key, answers[index]]));
  change((photo) => {
    const answer = places.get(photo.key);
    if (answer === undefined) return {};
    if ("error" in answer) return { problem: answer.error.message };
    return { answer, seen: answer.seen, url: drawableUrl(photo, answer.seen) };
  });
}

function clear() {
  request?.abort();
  photos.forEach(({ url }) => URL.revokeObjectURL(url));
  photos = [];
  draw();
}

/** Save the results of this session as a file. */
function save() {
  // The mark at its beginning tells spreadsheets that it is UTF-8.
  const csv = new Blob(["\ufeff", asCsv(photos, labelNames())], { type: "text/csv" });
  const url = URL.createObjectURL(csv);
  make("a", { href: url, download: `${memory.name.replace(/\.cbcl$/, "")} test.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

function draw() {
  const labels = labelNames();
  /** @type {Map<Result, TestPhoto[]>} */
  const groups = new Map();
  for (const photo of photos) {
    const result = resultOf(photo, labels);
    groups.set(result, [...(groups.get(result) ?? []), photo]);
  }
  const of = (/** @type {Result} */ result) => groups.get(result) ?? [];
  const judged = JUDGED.some((result) => groups.has(/** @type {Result} */ (result)));
  find("test-empty").hidden = photos.length > 0;
  find("test-actions").hidden = photos.length === 0;
  find("test-save").disabled = !judged;
  find("test-wait").textContent = say("test.wait", { count: of("waiting").length });
  find("test-wait").hidden = !groups.has("waiting");
  find("test-body").replaceChildren(
    ...(judged ? drawResults(labels, [...of("wrong"), ...of("unknown")]) : []),
    ...list(say("test.judge"), of("unjudged"), (photo) => judgeItem(photo, labels)),
    ...list(say("test.taught", { count: of("taught").length }), of("taught"), plainItem),
    ...list(say("test.broken", { count: of("broken").length }), of("broken"), plainItem),
  );
}

/** @param {string[]} labels @param {TestPhoto[]} misses */
function drawResults(labels, misses) {
  const { total, things } = countResults(photos, labels);
  const figures = make(
    "dl",
    { class: "figures" },
    figure(say("scores.tested"), total.photos),
    figure(say("scores.right"), total.right, total.photos),
    figure(say("scores.wrong"), total.wrong, total.photos),
    figure(say("scores.unknown"), total.unknown, total.photos),
  );
  const keys = ["thing", "photos", "right", "wrong", "unknown"];
  const heads = keys.map((key) => make("th", { scope: "col" }, say(`test.head_${key}`)));
  const sorted = [...things].sort(([a], [b]) => a.localeCompare(b));
  const rows = sorted.map((row) => thingRow(row, labels));
  const caption = say("test.table");
  const table = tableOf("pairs", caption, make("tr", {}, heads), rows);
  const wrong = list(say("scores.misses"), misses, missItem);
  return [figures, section(caption, scrollBox(caption, table)), ...wrong];
}

/** @param {[string, Counts]} row @param {string[]} labels */
function thingRow([name, counts], labels) {
  const stranger = !labels.includes(name) && make("span", { class: "quiet" }, say("test.stranger"));
  const title = name === NONE ? say("test.nothing") : name;
  const numbers = [counts.photos, counts.right, counts.wrong, counts.unknown];
  const cells = numbers.map((number) => make("td", { class: "number" }, String(number)));
  const words = [make("bdi", {}, title), " ", name !== NONE && stranger];
  return make("tr", {}, make("th", { scope: "row" }, words), cells);
}

/**
 * Make a list of photos under a heading; nothing, if there are none.
 * @param {string} title
 * @param {TestPhoto[]} some
 * @param {(photo: TestPhoto) => HTMLElement} item
 */
function list(title, some, item) {
  if (!some.length) return [];
  const items = some.slice(0, MAX_SHOWN).map(item);
  const rest = some.length - items.length;
  const more = rest > 0 && make("p", { class: "quiet" }, say("scores.more", { count: rest }));
  return [section(title, make("ul", { class: "misses" }, items), more)];
}

/** @param {TestPhoto} photo */
function photoOf({ url, name }) {
  const size = { width: 64, height: 64 };
  return make("img", { class: "thumb", src: url, alt: name, title: name, ...size });
}

/** @param {string | null} label */
const saidOf = (label) =>
  label === null ? make("em", {}, say("answer.unknown")) : make("strong", { dir: "auto" }, label);

/** @param {TestPhoto} photo */
function missItem(photo) {
  const truth = make("strong", { dir: "auto" }, photo.truth || say("test.nothing"));
  const words = sayNodes("scores.miss", { truth, said: saidOf(photo.answer?.label ?? null) });
  return make("li", { class: "panel row" }, photoOf(photo), make("span", {}, words));
}

/** @param {TestPhoto} photo */
function plainItem(photo) {
  const { name, problem, truth } = photo;
  const words = problem ?? (truth ? `${truth}/${name}` : name); // many cameras begin at 0001
  return make("li", { class: "panel row" }, photoOf(photo), make("span", { dir: "auto" }, words));
}

/**
 * Ask whether the answer about a photo is right, and else what it shows.
 * @param {TestPhoto} photo
 * @param {string[]} labels
 */
function judgeItem(photo, labels) {
  const { answer, key, name } = photo;
  const label = answer?.label ?? null;
  const set = (/** @type {string} */ truth) => judge(key, truth);
  const sure = answer?.confidence && label !== null ? ` ${percent(answer.confidence)}` : "";
  const right = button(say("test.right"), () => set(label ?? NONE), {
    class: "small",
    "aria-label": say("test.right_label", { name }),
  });
  const others = labels.filter((each) => each !== label);
  const options = [
    make("option", { value: "", disabled: true, selected: true }, say("test.wrong")),
    ...others.map((each) => make("option", { value: `is ${each}` }, each)),
    label !== null && make("option", { value: "is " }, say("test.nothing")),
  ];
  const wrong = make("select", { "aria-label": say("test.wrong_label", { name }) }, options);
  wrong.addEventListener("change", () => set(wrong.value.slice("is ".length)));
  const words = sayNodes("test.said", { said: saidOf(label) });
  const choices = make("span", { class: "row" }, right, wrong);
  return make(
    "li",
    { class: "panel row" },
    photoOf(photo),
    make("span", { class: "stack" }, make("span", {}, words, sure), choices),
  );
}

/** @param {number} key @param {string} truth */
function judge(key, truth) {
  const unjudged = photos.filter((photo) => photo.truth === null);
  const place = unjudged.findIndex((photo) => photo.key === key);
  change((photo) => (photo.key === key ? { truth } : {}));
  const rest = [...find("test-body").querySelectorAll("button")];
  (rest[Math.min(place, rest.length - 1)] ?? find("test-save")).focus(); // the next one to judge
}
