// @ts-check
// The dialogs: all examples of a thing, merging, the keys.

import { get } from "./api.js";
import { count, find, iconButton, lazyImage, make, thumbnailUrl } from "./dom.js";
import { merge, removeExample } from "./editing.js";
import { findThing, labelNames, memory, memoryEvents, nameOf, NONE } from "./memory.js";
import { attempt } from "./toasts.js";

/** @import { Examples } from "./types.d.ts" */

/** @type {string | null} */
let shownLabel = null; // whose examples are on the screen

export function setUpDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    // A click beside it.
    dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
    dialog.addEventListener("close", () => document.body.append(find("toasts")));
    for (const button of dialog.querySelectorAll("button.close")) {
      button.addEventListener("click", () => dialog.close());
    }
  }
  find("keys-button").addEventListener("click", () => {
    find("menu").hidePopover();
    openDialog("keys-dialog");
  });
  find("examples-dialog").addEventListener("close", () => (shownLabel = null));
  memoryEvents.addEventListener("changed", () => drawExamples());
  const form = find("merge-form");
  form.addEventListener("submit", () => merge(form.dataset.label ?? "", find("merge-into").value));
}

/**
 * Show a dialog; messages come along, since what is outside cannot be reached.
 * @param {"keys-dialog" | "merge-dialog" | "examples-dialog"} id
 */
export function openDialog(id) {
  find(id).showModal();
  find(id).append(find("toasts"));
}

/** @param {string} label */
export function openMerge(label) {
  find("merge-form").dataset.label = label;
  find("merge-title").textContent = `Merge ${label}`;
  const others = labelNames().filter((name) => name !== label);
  const options = others.map((name) => make("option", { value: name }, name));
  find("merge-into").replaceChildren(...options);
  openDialog("merge-dialog");
  find("merge-into").focus();
}

/** @param {string} label */
export async function openExamples(label) {
  shownLabel = label;
  find("examples-title").textContent = label === NONE ? "None of these" : label;
  find("examples-note").textContent = "…";
  find("examples-body").replaceChildren();
  openDialog("examples-dialog");
  await drawExamples();
}

async function drawExamples() {
  const label = shownLabel;
  if (label === null) return;
  if (!findThing(label)) return find("examples-dialog").close(); // forgotten or renamed meanwhile
  const examples = await attempt(() =>
    label === NONE
      ? get("/api/negatives")
      : get(`/api/examples?label=${encodeURIComponent(label)}`),
  );
  if (!examples || shownLabel !== label) return;
  find("examples-note").textContent = noteOn(examples);
  const body = find("examples-body");
  const buttons = () => [...body.querySelectorAll("button")];
  const place = buttons().findIndex((button) => button === document.activeElement);
  body.replaceChildren(...conceptSections(label, examples.kept));
  if (place >= 0) buttons().slice(0, place + 1).at(-1)?.focus(); // the next, after one is removed
}

/** @param {Examples} examples */
function noteOn({ examples, kept }) {
  const all = `${count(examples, "photo")}.`;
  if (memory.private) {
    return `${all} This memory is private: it keeps no pictures, so there is nothing to show.`;
  }
  return kept.length < examples ? `${all} The pictures of ${kept.length} are kept.` : all;
}

/**
 * Make one section; of the vote, one a concept, with a heading if there are several.
 * @param {string} label
 * @param {Examples["kept"]} all
 */
function conceptSections(label, all) {
  const kept = memory.head === "vote" ? all : all.map((one) => ({ ...one, concept: 0 }));
  const concepts = [...new Set(kept.map(({ concept }) => concept))].sort((a, b) => a - b);
  return concepts.map((number, index) => {
    const examples = kept.filter(({ concept }) => concept === number);
    const size = make("span", { class: "quiet" }, count(examples.length, "photo"));
    const heading = concepts.length > 1 && make("h3", {}, `Concept ${index + 1} `, size);
    const pictures = examples.map(({ example }) => exampleItem(label, example));
    const gallery = make("ul", { class: "gallery" }, pictures);
    return make("section", { class: "concept" }, heading, gallery);
  });
}

/** @param {string} label @param {number} example */
function exampleItem(label, example) {
  const image = lazyImage(thumbnailUrl(example), `Photo ${example} of ${nameOf(label)}`);
  const remove = () => removeExample(example, label);
  const name = `Remove photo ${example} of ${nameOf(label)}`;
  return make("li", {}, image, iconButton(name, "close", remove, { class: "icon-button out" }));
}
