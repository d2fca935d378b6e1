// @ts-check
// The self-test: how many photos of each thing are recognized by what the others teach.
// It may take the server seconds, so it is asked for when the memory has come to rest.

import { get } from "./api.js";
import { memory, memoryEvents } from "./memory.js";
import { say } from "./words.js";

/** @import { Tested, Thing } from "./types.d.ts" */

const MIN_REST_MS = 400; // without a change, before it is asked for
const MAX_REST_MS = 20_000;

/** Tells of "changed" when there are new results. */
export const selfTestEvents = new EventTarget();

/** @type {Map<string, Tested & { changed?: number }>} */
let results = new Map(); // by label
/** @type {number | null} */
let revision = null; // that they are of
let rest = MIN_REST_MS; // longer where a test takes long
let running = false;
/** @type {number | undefined} */
let timer;

export function setUpSelfTest() {
  memoryEvents.addEventListener("changed", () => schedule());
}

/**
 * Return what the test found out about a thing; undefined: nothing yet, since its last change.
 * @param {Thing} thing
 */
export function testedOf({ label, changed }) {
  const tested = results.get(label);
  return tested?.changed === changed ? tested : undefined;
}

/**
 * Say how many photos were recognized; of many, only the latest are tested.
 * @param {Tested} tested
 * @param {number} examples
 */
export function describeTested({ recognized: right, tested: all }, examples) {
  const numbers = { right, all };
  if (all < examples) return say("things.recognized_some", numbers);
  return say("things.recognized", numbers);
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(update, rest);
}

async function update() {
  if (running || memory.revision === revision) return;
  running = true;
  const start = performance.now();
  const tested = await get("/api/self-test").catch(() => null); // no status is worth an error
  running = false;
  rest = Math.min(MAX_REST_MS, Math.max(MIN_REST_MS, 2 * (performance.now() - start)));
  if (tested) take(tested.revision, tested.labels);
  if (tested && tested.revision !== memory.revision) schedule();
}

/** @param {number} of @param {Tested[]} entries */
function take(of, entries) {
  revision = of;
  if (of !== memory.revision) return; // of things that are others by now
  const changes = new Map(memory.labels.map(({ label, changed }) => [label, changed]));
  const withChange = (/** @type {Tested} */ one) => ({ ...one, changed: changes.get(one.label) });
  results = new Map(entries.map((one) => [one.label, withChange(one)]));
  selfTestEvents.dispatchEvent(new Event("changed"));
}
