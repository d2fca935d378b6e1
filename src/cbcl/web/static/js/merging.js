// @ts-check
// The dialog that merges a thing into another: the photos of both, what looks most alike first.

import { matchNames } from "./combobox.js";
import { openDialog } from "./dialogs.js";
import { exampleImage, find, make } from "./dom.js";
import { merge } from "./editing.js";
import { findThing } from "./memory.js";
import { nearestTo } from "./nearest.js";
import { say } from "./words.js";

const MIN_FILTER = 9; // things, from which on a filter is of use
const MAX_ROWS = 60; // at a time: the filter finds the others

let from = "";
/** @type {string[]} */
let names = []; // of the other things, the nearest first

export function setUpMerging() {
  find("merge-form").addEventListener("submit", () => {
    const into = chosenName();
    if (into !== null) merge(from, into);
  });
  find("merge-list").addEventListener("change", drawButton);
  find("merge-filter").addEventListener("input", drawRows);
  find("merge-filter").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosenName() === null) event.preventDefault();
  });
}

/** @param {string} label */
export async function openMerge(label) {
  from = label;
  names = [];
  find("merge-title").textContent = say("merge.title", { label });
  find("merge-from").replaceChildren(stripOf(label));
  find("merge-filter").value = "";
  find("merge-list").replaceChildren();
  drawButton();
  openDialog("merge-dialog");
  const others = await nearestTo(label);
  if (from !== label || !find("merge-dialog").open) return;
  names = others;
  find("merge-filter-label").hidden = names.length < MIN_FILTER;
  drawRows();
  find("merge-list").querySelector("input")?.focus();
}

function drawRows() {
  const typed = find("merge-filter").value;
  const fitting = new Set(matchNames(names, typed));
  const shown = names.filter((name) => fitting.has(name)).slice(0, MAX_ROWS);
  const rows = shown.map((name, index) => rowOf(name, index === 0, name === names[0]));
  const nothing = make("p", { class: "quiet" }, say("things.no_match"));
  find("merge-list").replaceChildren(...(rows.length ? rows : [nothing]));
  drawButton();
}

/** @param {string} name @param {boolean} checked @param {boolean} nearest */
function rowOf(name, checked, nearest) {
  const input = make("input", { type: "radio", name: "merge-into", value: name, checked });
  const count = say("photos", { count: findThing(name)?.examples ?? 0 });
  const hint = nearest ? say("merge.nearest", { photos: count }) : count;
  const words = make("span", { class: "words" }, make("bdi", {}, name));
  words.append(make("span", { class: "quiet" }, hint));
  return make("label", { class: "row choice" }, input, stripOf(name), words);
}

/** @param {string} label */
function stripOf(label) {
  const shown = findThing(label)?.shown ?? [];
  const images = (shown.length ? shown : [null]).map((example) => exampleImage(label, example));
  return make("span", { class: "thumbs", "aria-hidden": "true" }, images);
}

function chosenName() {
  const input = find("merge-list").querySelector("input:checked");
  return /** @type {HTMLInputElement | null} */ (input)?.value ?? null;
}

function drawButton() {
  const into = chosenName();
  find("merge-button").disabled = into === null;
  find("merge-button").textContent =
    into === null ? say("merge.button") : say("merge.into", { label: into });
}
