// @ts-check
// All photos of a thing: enlarged, selected, removed or moved to another thing, several at a time.

import { get } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, find, icon, iconButton, lazyImage, make, thumbnailUrl } from "./dom.js";
import { removeExamples } from "./editing.js";
import { findThing, memory, memoryEvents, nameOf, NONE } from "./memory.js";
import { openMove } from "./moving.js";
import { drawViewer, openViewer } from "./photo_viewer.js";
import { describeTested, selfTestEvents, testedOf } from "./self_test.js";
import { attempt } from "./toasts.js";
import { say } from "./words.js";

/** @import { Examples } from "./types.d.ts" */

/** @type {string | null} */
let shownLabel = null; // whose photos are on the screen
/** @type {Examples} */
let shown = { examples: 0, kept: [] };
/** @type {Set<number>} */
let chosen = new Set(); // numbers of photos
let lastTicked = 0;

export function setUpPhotos() {
  find("examples-dialog").addEventListener("close", () => (shownLabel = null));
  memoryEvents.addEventListener("changed", () => readPhotos());
  selfTestEvents.addEventListener("changed", () => shownLabel !== null && draw());
  find("photos-all").addEventListener("click", () => choose(numbers()));
  find("photos-none").addEventListener("click", () => choose([]));
  find("photos-remove").addEventListener("click", () => removeExamples([...chosen], shownName()));
  find("photos-move").addEventListener("click", () => openMove([...chosen], shownLabel ?? NONE));
}

const numbers = () => shown.kept.map(({ example }) => example);
const shownName = () => nameOf(shownLabel ?? NONE);

/** @param {string} label */
export async function openPhotos(label) {
  shownLabel = label;
  shown = { examples: 0, kept: [] };
  chosen = new Set();
  find("examples-title").textContent = label === NONE ? say("answer.none") : label;
  find("examples-note").textContent = "…";
  find("examples-body").replaceChildren();
  drawSelection();
  openDialog("examples-dialog");
  await readPhotos();
}

async function readPhotos() {
  const label = shownLabel;
  if (label === null) return;
  if (!findThing(label)) return find("examples-dialog").close(); // forgotten or renamed meanwhile
  const examples = await attempt(() =>
    label === NONE
      ? get("/api/negatives")
      : get(`/api/examples?label=${encodeURIComponent(label)}`),
  );
  if (!examples || shownLabel !== label) return;
  shown = examples;
  chosen = new Set(numbers().filter((number) => chosen.has(number)));
  draw();
  drawViewer(viewerPhotos());
}

function draw() {
  find("examples-note").textContent = [noteOn(shown), adviceOn()].filter(Boolean).join(" · ");
  const body = find("examples-body");
  const controls = () => [...body.querySelectorAll("button, input")];
  const place = controls().findIndex((control) => control === document.activeElement);
  body.replaceChildren(...conceptSections());
  const next = controls().slice(0, place + 1).at(-1); // after one is removed
  if (place >= 0) /** @type {HTMLElement} */ (next)?.focus();
  drawSelection();
}

/** @param {Examples} examples */
function noteOn({ examples, kept }) {
  const all = say("photos", { count: examples });
  if (memory.private) return say("examples.private", { all });
  return kept.length < examples ? say("examples.kept", { all, count: kept.length }) : all;
}

/** Say what the self-test found out, and what would help. */
function adviceOn() {
  const thing = shownLabel ? findThing(shownLabel) : null;
  if (thing?.examples === 1) return say("things.only_one");
  const tested = thing && testedOf(thing);
  if (!thing || !tested?.tested) return "";
  const { tested: all, recognized: right } = tested;
  if (right === all) return describeTested(tested, thing.examples);
  if (right === 0) return say("photos.fail_all", { count: all });
  return say("photos.fail_some", { count: all - right, all });
}

/** What was answered about photos that are not recognized, by their numbers; null: unknown. */
function failures() {
  const thing = shownLabel ? findThing(shownLabel) : null;
  const wrong = (thing && testedOf(thing)?.wrong) ?? [];
  return new Map(wrong.map(({ example, answer }) => [example, answer]));
}

/** Make one section; of the vote, one a concept, with a heading if there are several. */
function conceptSections() {
  const severalEach = memory.abilities.includes("centroids");
  const kept = severalEach ? shown.kept : shown.kept.map((one) => ({ ...one, concept: 0 }));
  const concepts = [...new Set(kept.map(({ concept }) => concept))].sort((a, b) => a - b);
  const failed = failures();
  return concepts.map((number, index) => {
    const examples = kept.filter(({ concept }) => concept === number);
    const size = make("span", { class: "quiet" }, say("photos", { count: examples.length }));
    const name = say("examples.concept", { number: index + 1 });
    const heading = concepts.length > 1 && make("h3", {}, `${name} `, size);
    const items = examples.map(({ example }) => photoItem(example, failed));
    return make("section", { class: "concept" }, heading, make("ul", { class: "gallery" }, items));
  });
}

/** @param {number} example @param {Map<number, string | null>} failed */
function photoItem(example, failed) {
  const which = { number: String(example), label: shownName() };
  const image = lazyImage(thumbnailUrl(example), say("examples.photo", which));
  const enlarge = () => openViewer(example, viewerPhotos());
  const face = button(image, enlarge, { class: "enlarge", title: say("photos.enlarge") });
  const tick = make("input", {
    type: "checkbox",
    "aria-label": say("photos.select", which),
    onclick: (/** @type {MouseEvent} */ { shiftKey }) => {
      toggleUpTo(example, tick.checked, shiftKey);
    },
  });
  tick.checked = chosen.has(example);
  const remove = () => removeExamples([example], shownName());
  const cross = { class: "icon-button out" };
  return make(
    "li",
    { class: tick.checked ? "picked" : null, "data-example": example },
    face,
    tick,
    iconButton(say("examples.remove", which), "close", remove, cross),
    failed.has(example) &&
      make("p", { class: "fails" }, icon("alert"), answerWords(failed.get(example) ?? null)),
  );
}

/** @param {string | null} answer */
const answerWords = (answer) =>
  answer === null ? say("photos.said_unknown") : say("photos.said", { label: answer });

/** The photos as the viewer shows them. */
function viewerPhotos() {
  const failed = failures();
  return numbers().map((example) => ({
    example,
    label: shownLabel ?? NONE,
    note: failed.has(example) ? answerWords(failed.get(example) ?? null) : "",
    chosen: chosen.has(example),
    choose: (/** @type {boolean} */ yes) => toggle(example, yes),
  }));
}

/**
 * Tick or untick a photo; with the shift key, all from the one ticked before up to it.
 * @param {number} example
 * @param {boolean} yes
 * @param {boolean} range
 */
function toggleUpTo(example, yes, range) {
  const all = numbers();
  const ends = [all.indexOf(range ? lastTicked : example), all.indexOf(example)];
  const [first, last] = ends.sort((a, b) => a - b);
  const some = first < 0 ? [example] : all.slice(first, last + 1);
  for (const one of some) toggle(one, yes);
  lastTicked = example;
}

/** @param {number} example @param {boolean} yes */
function toggle(example, yes) {
  if (yes) chosen.add(example);
  else chosen.delete(example);
  choose([...chosen]);
}

/** @param {number[]} examples */
function choose(examples) {
  chosen = new Set(examples);
  for (const item of find("examples-body").querySelectorAll("li")) {
    const picked = chosen.has(Number(item.dataset.example));
    item.classList.toggle("picked", picked);
    /** @type {HTMLInputElement} */ (item.querySelector("input")).checked = picked;
  }
  drawSelection();
}

function drawSelection() {
  const none = chosen.size === 0;
  find("photos-selection").hidden = shown.kept.length === 0;
  find("photos-selected").textContent = none
    ? say("photos.hint")
    : say("photos.selected", { count: chosen.size });
  find("photos-all").hidden = chosen.size === shown.kept.length;
  for (const id of ["photos-none", "photos-move", "photos-remove"]) find(id).hidden = none;
}
