// @ts-check
// Short messages in a corner: what was done, with an undo, and what went wrong.

import { button, find, icon, iconButton, make } from "./dom.js";
import { say } from "./words.js";

/** @import { ApiError } from "./api.js" */

const TOAST_MS = 9000; // for what is no error; undoing stays possible in the history
const MAX_TOASTS = 2; // at a time, of those that are no error

/**
 * Say what was done; undo puts a button beside it; gone is called when it can no longer be pressed.
 * @param {string} text
 * @param {{ undo?: (() => unknown) | null, gone?: () => unknown }} [options]
 */
export function notify(text, { undo = null, gone = () => {} } = {}) {
  // Only the last step can be undone.
  if (undo) document.querySelectorAll(".toast.undoable").forEach(closeToast);
  sameToasts(text, ".toast.status:not(.undoable)").forEach(closeToast);
  const toast = show(text, "status", gone);
  if (undo) {
    toast.classList.add("undoable");
    const press = () => (closeToast(toast), undo());
    toast.querySelector("p")?.after(button(say("undo"), press, { class: "small undo" }));
  }
  const close = () => closeToast(toast);
  let timer = setTimeout(close, TOAST_MS);
  toast.addEventListener("pointerenter", () => clearTimeout(timer));
  toast.addEventListener("focusin", () => clearTimeout(timer));
  toast.addEventListener("pointerleave", () => (timer = setTimeout(close, TOAST_MS / 2)));
  return toast;
}

/** Press the undo that is on the screen, if there is one: it knows what belongs to it. */
export function pressUndo() {
  const undo = /** @type {HTMLElement | null} */ (find("toasts").querySelector(".undo"));
  undo?.click();
  return undo !== null;
}

/**
 * Say what went wrong; it stays until it is dismissed. The same sentence is said once.
 * @param {string} text
 */
export function notifyError(text) {
  return sameToasts(text, ".toast")[0] ?? show(text, "alert", () => {});
}

/**
 * List the toasts that say this already.
 * @param {string} text
 * @param {string} kind
 */
const sameToasts = (text, kind) =>
  [...find("toasts").querySelectorAll(kind)].filter(
    (toast) => toast.querySelector("p")?.textContent === text,
  );

/**
 * Return what a piece of work returns; if it fails, say why, and return undefined.
 * @template T
 * @param {() => Promise<T>} work
 * @param {(error: ApiError) => boolean} isTold says it elsewhere; false: it was not said
 * @returns {Promise<T | undefined>}
 */
export async function attempt(work, isTold = () => false) {
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (isTold(error)) return undefined;
    if (error.kind !== "token") notifyError(error.message);
    if (!error.kind) console.error(error);
    return undefined;
  }
}

/** Put the messages into the dialog on top, if there is one: outside they could not be reached. */
export function placeToasts() {
  const top = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (find("toasts").parentElement !== top) top.append(find("toasts"));
}

/** @param {string} text @param {"status" | "alert"} role @param {() => unknown} gone */
function show(text, role, gone) {
  const region = find("toasts");
  placeToasts();
  const words = make("p", { dir: "auto" }, text);
  const toast = make("div", { class: `panel row toast ${role}`, role }, words);
  if (role === "alert") toast.prepend(icon("alert"));
  toast.append(iconButton(say("dismiss"), "close", () => closeToast(toast)));
  toast.addEventListener("closed", gone, { once: true });
  region.append(toast);
  [...region.querySelectorAll(".toast.status")].slice(0, -MAX_TOASTS).forEach(closeToast);
  return toast;
}

/** @param {Element} toast */
export function closeToast(toast) {
  toast.dispatchEvent(new Event("closed"));
  toast.remove();
}
