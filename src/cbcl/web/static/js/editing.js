// @ts-check
// Changes of the memory: each is told in a toast, from where it can be undone.

import { deleteExample, deleteNegatives, post } from "./api.js";
import { memory, nameOf, NONE, syncTo } from "./memory.js";
import { attempt, notify, notifyError } from "./toasts.js";

/**
 * Rename a label; true if it was done.
 * @param {string} label
 * @param {string} name
 */
export const rename = (label, name) =>
  change(() => post("/api/rename", { label, new: name }), `${label} is now called ${name}.`);

/**
 * Merge a label into another; true if it was done.
 * @param {string} label
 * @param {string} into
 */
export const merge = (label, into) =>
  change(() => post("/api/merge", { label, into }), `${label} is now part of ${into}.`);

/**
 * Forget a label, or all pictures of none of the things; true if it was done.
 * @param {string} label
 */
export const forget = (label) =>
  change(
    () => (label === NONE ? deleteNegatives() : post("/api/forget", { label })),
    `Forgot ${nameOf(label)}.`,
  );

/**
 * Remove one example of a label; true if it was done.
 * @param {number} example
 * @param {string} label
 */
export const removeExample = (example, label) =>
  change(() => deleteExample(example), `Removed one photo of ${nameOf(label)}.`);

/** @param {() => Promise<{ revision: number }>} request @param {string} text */
async function change(request, text) {
  const result = await attempt(request);
  if (result === undefined) return false;
  syncTo(result.revision);
  notifyUndoable(text, result.revision);
  return true;
}

/**
 * Say what was done, with an undo that takes back this and nothing else.
 * @param {string} text
 * @param {number} revision
 * @param {{ steps?: number, undone?: () => void, gone?: () => void }} [options]
 */
export function notifyUndoable(text, revision, options = {}) {
  const { steps = 1, undone = () => {}, gone = () => {} } = options;
  let pressed = false;
  const undo = async () => {
    pressed = true;
    if (memory.revision !== null && memory.revision > revision) {
      const why = "Something else was changed since, so this is not the last step";
      notifyError(`${why}: see the history.`);
    } else if (await undoLast(steps)) undone();
  };
  notify(text, { undo, gone: () => setTimeout(() => pressed || gone()) });
}

/**
 * Undo the last step, whatever it was; or the last few, if they belong together.
 * @returns {Promise<boolean>}
 */
export async function undoLast(steps = 1) {
  const result = await attempt(() => post("/api/undo"));
  if (result === undefined) return false;
  syncTo(result.revision);
  if (steps > 1) return undoLast(steps - 1);
  notify(`Taken back: ${result.done.text.replace(/^undo /, "")}.`);
  return true;
}
