// @ts-check
// The dialog that moves photos to another thing, known or new.

import { setUpCombobox } from "./combobox.js";
import { openDialog } from "./dialogs.js";
import { button, exampleImage, find, lazyImage, make, thumbnailUrl } from "./dom.js";
import { moveExamples } from "./editing.js";
import { findThing, labelNames, memory, NONE } from "./memory.js";
import { nearestTo } from "./nearest.js";
import { say } from "./words.js";

const MAX_PHOTOS = 12; // shown
const MAX_OFFERS = 5; // things

/** @type {number[]} */
let moving = []; // numbers of photos
let from = ""; // the label they have

export function setUpMoving() {
  const field = find("move-into");
  setUpCombobox(field, () => labelNames().filter((name) => name !== from));
  find("move-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const label = field.value.trim();
    if (label) return moveTo(label);
    showProblem(say("move.need_name"));
    field.focus();
  });
  field.addEventListener("input", () => showProblem(""));
  // What was typed is not dropped at the first Escape.
  find("move-dialog").addEventListener("cancel", (event) => {
    if (!field.value.trim() || !find("move-discard").hidden) return;
    event.preventDefault();
    find("move-discard").hidden = false;
    showProblem(say("move.discard_question", { name: field.value.trim() }));
    find("move-discard").focus();
  });
  find("move-discard").addEventListener("click", () => find("move-dialog").close());
}

/** @param {number[]} examples @param {string} label */
export async function openMove(examples, label) {
  moving = examples;
  from = label;
  find("move-title").textContent = say("move.title", { count: examples.length });
  const photos = examples.slice(0, MAX_PHOTOS).map((example) => lazyImage(thumbnailUrl(example)));
  find("move-photos").replaceChildren(...photos);
  find("move-into").value = "";
  find("move-offers").replaceChildren();
  showProblem("");
  openDialog("move-dialog");
  find("move-into").focus();
  const things = (await nearestTo(label)).slice(0, MAX_OFFERS);
  if (from === label && find("move-dialog").open) drawOffers(things);
}

/** @param {string[]} things */
function drawOffers(things) {
  const offers = things.map((label) => {
    const image = exampleImage(label, findThing(label)?.shown[0]);
    const name = make("bdi", { class: "clip" }, label);
    return button([image, name], () => moveTo(label), { class: "offer" });
  });
  if (from !== NONE && memory.abilities.includes("negatives")) {
    offers.push(button(say("answer.none"), () => moveTo(NONE), { class: "offer" }));
  }
  find("move-offers").replaceChildren(...offers.map((offer) => make("li", {}, offer)));
}

/** @param {string} label */
async function moveTo(label) {
  if (label === from) return showProblem(say("move.same", { label }));
  const error = await moveExamples(moving, from, label);
  if (error) showProblem(error);
  else find("move-dialog").close();
}

/** @param {string} text */
function showProblem(text) {
  find("move-problem").textContent = text;
  find("move-into").setAttribute("aria-invalid", String(Boolean(text)));
  if (!text) find("move-discard").hidden = true;
}
