// @ts-check
// Renaming in place: Enter, ✓ and leaving the field keep the new name, Escape the old one.

import { button, iconButton, make } from "./dom.js";
import { merge, rename } from "./editing.js";
import { labelNames, memoryEvents } from "./memory.js";
import { findSpelledAlike } from "./spelling.js";
import { notifyError } from "./toasts.js";
import { say, sayNodes } from "./words.js";

/**
 * A name being changed: its card, what stood there, the field, and what to do in the end.
 * @typedef {{
 *   card: HTMLElement, name: HTMLElement, label: string, input: HTMLInputElement,
 *   box: HTMLElement, done: (now: string | null) => void,
 * }} Edit
 */

/** Let the browser ask before a page is left on which a name is being typed. */
export function setUpRenaming() {
  window.addEventListener("beforeunload", (event) => {
    const fields = /** @type {NodeListOf<HTMLInputElement>} */ (
      document.querySelectorAll("input.rename, dialog[open] #move-into")
    );
    const typed = [...fields].some(({ value, defaultValue }) => value.trim() !== defaultValue);
    if (typed) event.preventDefault();
  });
}

/**
 * Put a field in place of the name on a card.
 * @param {HTMLElement} card
 * @param {HTMLElement} name
 * @param {string} label
 * @param {(now: string | null) => void} done called with the new name, null: it is the old one
 */
export function editName(card, name, label, done) {
  const about = { type: "text", class: "rename", "aria-label": say("things.new_name", { label }) };
  const input = make("input", { ...about, value: label, maxlength: 200, spellcheck: "false" });
  const box = make("div", { class: "renaming" });
  const edit = { card, name, label, input, box, done };
  // The field keeps the focus, so that pressing this is not leaving it.
  const onpointerdown = (/** @type {Event} */ event) => event.preventDefault();
  const tick = iconButton(say("rename.save"), "check", () => save(edit), { onpointerdown });
  box.append(make("div", { class: "row" }, input, tick));
  input.addEventListener("input", () => withdrawQuestion(edit));
  box.addEventListener("keydown", (event) => onKey(edit, event));
  box.addEventListener("focusout", ({ relatedTarget }) => {
    const inside = relatedTarget instanceof Node && box.contains(relatedTarget);
    if (!inside && !isAsking(edit)) save(edit, { leaving: true });
  });
  card.classList.add("editing");
  name.replaceWith(box);
  input.select();
  input.focus();
}

/** @param {Edit} edit @param {KeyboardEvent} event */
function onKey(edit, event) {
  event.stopPropagation(); // the page's shortcuts are not meant
  if (event.key === "Escape") end(edit, null);
  else if (event.key !== "Enter" || event.target !== edit.input) return;
  else save(edit);
  event.preventDefault();
}

/** @param {Edit} edit */
const isAsking = ({ box }) => box.querySelector(".alike") !== null;

/** @param {Edit} edit */
const withdrawQuestion = ({ box }) => box.querySelector(".alike")?.remove();

/**
 * Keep the name, unless it is that of another thing: then ask. A name that is refused stays.
 * @param {Edit} edit
 */
async function save(edit, { leaving = false, sure = false } = {}) {
  const { card, label, input } = edit;
  if (!card.classList.contains("editing") || input.readOnly) return;
  const wish = input.value.trim();
  if (!wish || wish === label) return end(edit, null, leaving);
  const others = labelNames().filter((other) => other !== label);
  const known = others.includes(wish) ? wish : findSpelledAlike(wish, others);
  if (known !== null && !sure) return ask(edit, wish, known);
  input.readOnly = true; // until the server has answered
  const renamed = await rename(label, wish);
  input.readOnly = false;
  input.setAttribute("aria-invalid", String(!renamed));
  if (renamed) end(edit, wish, leaving);
}

/**
 * Ask whether a thing that is called the same, or nearly, is meant.
 * @param {Edit} edit
 * @param {string} wish
 * @param {string} known
 */
function ask(edit, wish, known) {
  const { label, box } = edit;
  withdrawQuestion(edit);
  const join = async () => (await merge(label, known)) && end(edit, known);
  const small = { class: "small" };
  const question = make(
    "div",
    { class: "alike", role: "alert" },
    make("p", {}, sayNodes("spelling.known", { label: make("bdi", {}, known) })),
    button(say("spelling.merge", { label: known }), join, small),
    wish === known
      ? null
      : button(say("spelling.keep", { label: wish }), () => save(edit, { sure: true }), small),
    button(say("cancel"), () => end(edit, null), small),
  );
  box.append(question);
}

/**
 * Put the name back in place of the field; unless someone has left it, the focus goes on.
 * @param {Edit} edit
 * @param {string | null} now
 */
function end({ card, name, box, done }, now, leaving = false) {
  if (!card.classList.contains("editing")) return;
  card.classList.remove("editing");
  box.replaceWith(name);
  if (leaving) return;
  if (now === null || labelNames().includes(now)) done(now);
  else memoryEvents.addEventListener("changed", () => done(now), { once: true });
}

/**
 * Say what was typed if the thing is gone whose name was being changed.
 * @param {HTMLElement} card
 * @param {string} label
 */
export function warnOfLostName(card, label) {
  const typed = typedName(card);
  if (typed !== null && typed !== label) notifyError(say("rename.lost", { label, name: typed }));
}

/** @param {HTMLElement} card */
function typedName(card) {
  const input = /** @type {HTMLInputElement | null} */ (card.querySelector("input.rename"));
  return input && !input.readOnly ? input.value.trim() : null;
}
