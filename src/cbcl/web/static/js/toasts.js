// Short messages in a corner: what was done, with a way back, and what went wrong.

import { button, find, icon, iconButton, make } from "./dom.js";

const LASTS = 9000; // milliseconds, for what is no error; undoing stays possible in the history
const MOST = 2; // at a time, of those that are no error

/** Say what was done; undo (a function) puts a button beside it; gone is called when it can no longer be pressed. */
export function say(text, { undo = null, gone = () => {} } = {}) {
  if (undo) document.querySelectorAll(".toast.undoable").forEach(close); // only the last step can be undone
  const toast = show(text, "status", gone);
  if (undo) {
    toast.classList.add("undoable");
    toast.querySelector("p").after(button("Undo", () => (close(toast), undo()), { class: "small undo" }));
  }
  let left = setTimeout(() => close(toast), LASTS);
  toast.addEventListener("pointerenter", () => clearTimeout(left));
  toast.addEventListener("focusin", () => clearTimeout(left));
  toast.addEventListener("pointerleave", () => (left = setTimeout(() => close(toast), LASTS / 2)));
  return toast;
}

/** Press the undo that is on the screen, if there is one: it knows what belongs to it. */
export function pressUndo() {
  const undo = find("toasts").querySelector(".undo");
  undo?.click();
  return undo !== null;
}

/** Say what went wrong; it stays until it is dismissed. The same sentence is said once. */
export function warn(text) {
  const same = [...find("toasts").children].find((toast) => toast.querySelector("p").textContent === text);
  return same ?? show(text, "alert", () => {});
}

/** Do it, and say what went wrong, if anything does; undefined then. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    if (error.kind !== "token") warn(error.message);
    if (!error.kind) console.error(error);
    return undefined;
  }
}

function show(text, role, gone) {
  const region = find("toasts");
  (document.querySelector("dialog[open]") ?? document.body).append(region); // outside a dialog it could not be reached
  const toast = make("div", { class: `toast ${role}`, role }, make("p", { dir: "auto" }, text));
  if (role === "alert") toast.prepend(icon("alert"));
  toast.append(iconButton("Dismiss", "close", () => close(toast)));
  toast.addEventListener("closed", gone, { once: true });
  region.append(toast);
  [...region.querySelectorAll(".toast.status")].slice(0, -MOST).forEach(close);
  return toast;
}

export function close(toast) {
  toast.dispatchEvent(new Event("closed"));
  toast.remove();
}
