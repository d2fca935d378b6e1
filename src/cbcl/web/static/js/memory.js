// @ts-check
// The page's copy of the memory's state; it follows every change, whoever made it.

import { get } from "./api.js";
import { say } from "./words.js";

/** @import { Labels, Thing } from "./types.d.ts" */

export const memory = {
  name: "",
  revision: /** @type {number | null} */ (null),
  visited: /** @type {number | null} */ (null), // the revision that was there when it was opened
  private: false,
  labels: /** @type {Thing[]} */ ([]),
  abilities: /** @type {Labels["abilities"]} */ ([]),
  negatives: /** @type {Labels["negatives"]} */ (null),
  strangers: /** @type {Labels["strangers"]} */ (null),
};

/**
 * Tells of "changed" once the new state is here, and of "taught" before it; of "opened" where it is
 * that of another memory, before it is here.
 */
export const memoryEvents = new EventTarget();

/** Know of no state until it is read again: another memory was opened. */
export function forgetState() {
  memory.revision = null;
  memory.visited = null;
  memoryEvents.dispatchEvent(new Event("opened"));
}

/** @type {Promise<void> | null} */
let running = null;
let stale = false;

/** Read the state again; calls while it is being read are one more reading after it. */
export function refresh() {
  if (running) {
    stale = true;
    return running;
  }
  running = read().finally(() => {
    running = null;
    if (!stale) return;
    stale = false;
    refresh().catch(() => {}); // connection.js reports a lost server
  });
  return running;
}

async function read() {
  Object.assign(memory, await get("/api/labels"));
  memory.visited ??= memory.revision;
  memoryEvents.dispatchEvent(new Event("changed"));
}

/**
 * Read the memory again if this revision is another than the one on the screen.
 * @param {number | null} revision
 */
export function syncTo(revision) {
  if (revision !== memory.revision) refresh().catch(() => {});
}

export const labelNames = () => memory.labels.map((thing) => thing.label);

/** Label of the pictures of none of the things: no thing has it. */
export const NONE = "";

/**
 * Write a label as people read it.
 * @param {string} label
 */
export const nameOf = (label) => (label === NONE ? say("none_of_these") : label);

/**
 * Return the pictures of none of the things, as a thing; null: there are none.
 * @returns {Thing | null}
 */
export const findNegatives = () => memory.negatives && { label: NONE, ...memory.negatives };

/**
 * Tell that a label was taught from this page, in a revision that may not be here yet: "taught".
 * @param {string} label
 * @param {number} revision
 */
export const tellTaught = (label, revision) =>
  memoryEvents.dispatchEvent(new CustomEvent("taught", { detail: { label, revision } }));

/** @param {string} label */
export const findThing = (label) =>
  label === NONE ? findNegatives() : memory.labels.find((thing) => thing.label === label);
