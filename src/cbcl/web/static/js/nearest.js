// @ts-check
// The things in the order in which they look like one.

import { get } from "./api.js";
import { labelNames, memory, NONE } from "./memory.js";

/**
 * List all other things, those that look most like one first; if that is not known, the latest.
 * @param {string} label
 * @returns {Promise<string[]>}
 */
export async function nearestTo(label) {
  const known = label === NONE ? latest() : await similarTo(label).catch(latest);
  const names = new Set(labelNames());
  names.delete(label);
  const first = known.filter((name) => names.delete(name));
  return [...first, ...names];
}

/** @param {string} label */
const similarTo = async (label) =>
  (await get(`/api/similar?label=${encodeURIComponent(label)}`)).similar;

const latest = () =>
  [...memory.labels]
    .sort((a, b) => (b.changed ?? 0) - (a.changed ?? 0))
    .map(({ label }) => label);
