// @ts-check
// Changes of the memory: each is told in a toast, from where it can be undone.

import { deleteNegatives, get, post, put } from "./api.js";
import { memory, nameOf, NONE, syncTo } from "./memory.js";
import { attempt, notify, notifyError, pressUndo } from "./toasts.js";
import { say } from "./words.js";

/** @import { Changed, HowOften, Undone } from "./types.d.ts" */

const READ_MS = 700; // in which the message of an undo is read; what is undone has no redo

let undoing = false;
let readAt = 0; // by performance.now(): when the message of the last undo has been read

/**
 * Rename a label; true if it was done.
 * @param {string} label
 * @param {string} name
 */
export const rename = (label, name) =>
  change(() => post("/api/rename", { label, new: name }), say("done.rename", { label, name }));

/**
 * Merge a label into another; true if it was done.
 * @param {string} label
 * @param {string} into
 */
export const merge = (label, into) =>
  change(() => post("/api/merge", { label, into }), say("done.merge", { label, into }));

/**
 * Forget a label, or all pictures of none of the things; true if it was done.
 * @param {string} label
 */
export const forget = (label) =>
  change(
    () => (label === NONE ? deleteNegatives() : post("/api/forget", { label })),
    say("done.forget", { label: nameOf(label) }),
  );

/**
 * Remove examples of a label in one step; true if it was done.
 * @param {number[]} examples
 * @param {string} name
 */
export const removeExamples = (examples, name) =>
  change(
    () => post("/api/unlearn", { examples }),
    say("done.unlearn", { count: examples.length, label: name }),
  );

/**
 * Say how often something unknown is to be expected; true if it was done.
 * @param {HowOften} strangers
 */
export const expectStrangers = (strangers) =>
  change(
    () => put("/api/strangers", { strangers }),
    say("done.strangers", { how: say(`strangers.${strangers}`) }),
  );

/**
 * Move examples of a label to another in one step; return what is wrong, null: it was done.
 * @param {number[]} examples
 * @param {string} from
 * @param {string} into
 * @returns {Promise<string | null>}
 */
export async function moveExamples(examples, from, into) {
  try {
    const body = { examples, into: into === NONE ? null : into };
    const { revision } = await post("/api/move", body);
    syncTo(revision);
    const names = { from: nameOf(from), into: nameOf(into) };
    notifyUndoable(say("done.move", { count: examples.length, ...names }), revision);
    return null;
  } catch (error) {
    return error.message;
  }
}

/** @param {() => Promise<{ revision: number }>} request @param {string} text */
async function change(request, text) {
  const result = await attempt(request);
  if (result === undefined) return false;
  syncTo(result.revision);
  notifyUndoable(text, result.revision);
  return true;
}

/**
 * Say what was done, with an undo that takes back this and nothing else; of no step there is none.
 * @param {string} text
 * @param {number} revision
 * @param {{ steps?: number, undone?: () => void, gone?: () => void }} [options]
 */
export function notifyUndoable(text, revision, options = {}) {
  const { steps = 1, undone = () => {}, gone = () => {} } = options;
  if (!steps) return void notify(text, { gone });
  let pressed = false;
  const undo = async () => {
    pressed = true;
    if (memory.revision !== null && memory.revision > revision) {
      notifyError(say("undo.late"));
    } else if (await undoLast(steps)) undone();
  };
  notify(text, { undo, gone: () => setTimeout(() => pressed || gone()) });
}

/**
 * Undo by a key what the message on the screen offers, else the last step of this visit: older ones
 * are left to the history, which shows them. Presses before it can be read what the one before has
 * undone are let go, so that nothing is undone unseen.
 */
export function undoByKey() {
  if (undoing || performance.now() < readAt) return;
  readAt = performance.now() + READ_MS;
  if (!pressUndo()) undoLast(1, memory.visited ?? 0);
}

/**
 * Undo the last step, whatever it was, or the last few, if they belong together; not while another
 * undo is under way, and none up to the revision kept.
 * @returns {Promise<boolean>}
 */
export async function undoLast(steps = 1, kept = 0) {
  if (undoing) return false;
  undoing = true;
  const result = await attempt(() => undoSteps(steps, kept));
  undoing = false;
  readAt = performance.now() + READ_MS;
  if (!result) return false;
  notify(describeUndone(result.undone ?? { action: "", text: result.done.text, labels: [] }));
  return true;
}

/** @param {number} steps @param {number} kept @returns {Promise<Changed | null>} */
async function undoSteps(steps, kept) {
  const next = kept && (await get("/api/history")).steps.find((step) => step.next);
  if (next && next.step <= kept) {
    notify(say("undo.older"));
    return null;
  }
  const result = await post("/api/undo");
  syncTo(result.revision);
  return steps > 1 ? undoSteps(steps - 1, kept) : result;
}

/**
 * Say what is so again after an undo.
 * @param {Undone} step
 */
export function describeUndone({ action, text, labels }) {
  const names = labels.map(nameOf);
  const into = names.at(-1) ?? "";
  const before = names.slice(0, -1).join(", ");
  switch (action) {
    case "forget":
      return say("undo.forget", { label: into });
    case "learn":
      return say("undo.learn", { labels: names.join(", ") });
    case "unlearn":
      return say("undo.unlearn", { labels: names.join(", ") });
    case "rename":
      return say("undo.rename", { label: before, name: into });
    case "merge":
      return say("undo.merge", { label: before, into });
    case "move":
      return say("undo.move", { labels: before });
    case "adopt":
    case "strangers":
      return say(`undo.${action}`);
    default:
      return say("undo.done", { step: text });
  }
}
