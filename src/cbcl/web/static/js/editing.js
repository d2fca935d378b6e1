// Changes the memory from the page: each change is told in a toast, from where it can be taken back.

import { post, remove } from "./api.js";
import { memory, reached } from "./memory.js";
import { attempt, say, warn } from "./toasts.js";

/** Rename, merge, forget: true if it was done. */
export const rename = (label, name) =>
  change(() => post("/api/rename", { label, new: name }), `${label} is now called ${name}.`);
export const merge = (label, into) =>
  change(() => post("/api/merge", { label, into }), `${label} is now part of ${into}.`);
export const forget = (label) => change(() => post("/api/forget", { label }), `Forgot ${label}.`);
export const removeExample = (example, label) =>
  change(() => remove(`/api/examples/${example}`), `Took one example out of ${label}.`);

async function change(work, text) {
  const told = await attempt(work);
  if (told === undefined) return false;
  reached(told.revision);
  sayUndoable(text, told.revision);
  return true;
}

/** Say what was done, with an undo that takes back this and nothing else. */
export function sayUndoable(text, revision, { steps = 1, undone = () => {}, gone = () => {} } = {}) {
  let back = false;
  const undo = async () => {
    back = true;
    if (memory.revision !== null && memory.revision > revision) {
      warn("Something else was changed since, so this is not the last step: see the history.");
    } else if (await undoLast(steps)) undone();
  };
  say(text, { undo, gone: () => setTimeout(() => back || gone()) });
}

/** Take back the last step, whatever it was; or the last few, if they belong together. */
export async function undoLast(steps = 1) {
  const told = await attempt(() => post("/api/undo"));
  if (told === undefined) return false;
  reached(told.revision);
  if (steps > 1) return undoLast(steps - 1);
  say(`Taken back: ${told.done.text.replace(/^undo /, "")}.`);
  return true;
}
