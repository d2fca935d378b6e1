// The windows on top of the page: all examples of a thing, merging, the keys.

import { get } from "./api.js";
import { merge, removeExample } from "./editing.js";
import { count, find, iconButton, make, photo, thumbnail } from "./dom.js";
import { changes, memory, names, thing } from "./memory.js";
import { attempt } from "./toasts.js";

let shown = null; // the label whose examples are on the screen

export function setUpDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // beside it
    dialog.addEventListener("close", () => document.body.append(find("toasts")));
    dialog.querySelectorAll("button.close").forEach((button) => button.addEventListener("click", () => dialog.close()));
  }
  find("keys-button").addEventListener("click", () => (find("menu").hidePopover(), open("keys-dialog")));
  find("examples-dialog").addEventListener("close", () => (shown = null));
  changes.addEventListener("changed", () => shown !== null && drawExamples());
  const form = find("merge-form");
  form.addEventListener("submit", () => merge(form.dataset.label, find("merge-into").value));
}

/** Show a dialog; messages come along, since what is outside cannot be reached. */
export function open(id) {
  find(id).showModal();
  find(id).append(find("toasts"));
}

export function openMerge(label) {
  find("merge-form").dataset.label = label;
  find("merge-title").textContent = `Merge ${label}`;
  const others = names().filter((name) => name !== label);
  find("merge-into").replaceChildren(...others.map((name) => make("option", { value: name }, name)));
  open("merge-dialog");
  find("merge-into").focus();
}

export async function openExamples(label) {
  shown = label;
  find("examples-title").textContent = label;
  find("examples-note").textContent = "…";
  find("examples-body").replaceChildren();
  open("examples-dialog");
  await drawExamples();
}

async function drawExamples() {
  const label = shown;
  if (!thing(label)) return find("examples-dialog").close(); // forgotten or renamed meanwhile
  const told = await attempt(() => get(`/api/examples?label=${encodeURIComponent(label)}`));
  if (!told || shown !== label) return;
  find("examples-note").textContent = note(told);
  const body = find("examples-body");
  const at = [...body.querySelectorAll("button")].indexOf(document.activeElement);
  body.replaceChildren(...concepts(label, told.kept));
  if (at >= 0) [...body.querySelectorAll("button")].slice(0, at + 1).at(-1)?.focus(); // the next, after one is removed
}

function note(told) {
  const all = `${count(told.examples, "example")}.`;
  if (memory.private) return `${all} This memory is private: it keeps no pictures, so there is nothing to show.`;
  return told.kept.length < told.examples ? `${all} The pictures of ${told.kept.length} are kept.` : all;
}

/** The examples, concept by concept; a heading for each if there are several. */
function concepts(label, kept) {
  const numbers = [...new Set(kept.map((one) => one.concept))].sort((one, other) => one - other);
  return numbers.map((number, place) => {
    const examples = kept.filter((one) => one.concept === number);
    const size = make("span", { class: "quiet" }, count(examples.length, "example"));
    const heading = numbers.length > 1 && make("h3", {}, `Concept ${place + 1} `, size);
    const pictures = examples.map(({ example }) => exampleOf(label, example));
    return make("section", { class: "concept" }, heading, make("ul", { class: "gallery" }, pictures));
  });
}

function exampleOf(label, example) {
  const remove = () => removeExample(example, label);
  return make(
    "li",
    {},
    photo(thumbnail(example), `Example ${example} of ${label}`),
    iconButton(`Remove example ${example} of ${label}`, "close", remove, { class: "icon-button out" }),
  );
}
