// @ts-check
// State of the test view: photos that were never taught, and what came out; pure functions.

import { NONE } from "./memory.js";
import { findSpelledAlike } from "./spelling.js";

/** @import { Answer, Picture } from "./types.d.ts" */

/**
 * @typedef {Picture & {
 *   key: number,
 *   url: string,
 *   answer: Answer | null,
 *   truth: string | null,
 *   problem: string | null,
 * }} TestPhoto truth: what it shows, NONE: nothing that is known, null: nobody has said yet
 */

/** @typedef {"right" | "wrong" | "unknown"} Judgement */
/** @typedef {Judgement | "waiting" | "broken" | "taught" | "unjudged"} Result */
/** @typedef {{ photos: number, right: number, wrong: number, unknown: number }} Counts */

export const JUDGED = ["right", "wrong", "unknown"];

/**
 * Return the name of what a photo shows as the memory spells it; NONE: it knows no such thing.
 * @param {string} truth
 * @param {string[]} labels
 */
export function knownName(truth, labels) {
  const name = truth.trim();
  return labels.includes(name) ? name : (findSpelledAlike(name, labels) ?? NONE);
}

/**
 * Return what came out for a photo; of what is not known, "I don't know this" is right.
 * @param {TestPhoto} photo
 * @param {string[]} labels
 * @returns {Result}
 */
export function resultOf({ answer, truth, problem }, labels) {
  if (problem !== null) return "broken";
  if (answer === null) return "waiting";
  if (typeof answer.taught === "string") return "taught";
  if (truth === null) return "unjudged";
  const expected = knownName(truth, labels);
  if ((answer.label ?? NONE) === expected) return "right";
  return answer.label === null ? "unknown" : "wrong";
}

/** @returns {Counts} */
const nothing = () => ({ photos: 0, right: 0, wrong: 0, unknown: 0 });

/**
 * Count the photos that were judged, all together and for each thing; of those that are not known,
 * by what they were said to be.
 * @param {TestPhoto[]} photos
 * @param {string[]} labels
 */
export function countResults(photos, labels) {
  const total = nothing();
  /** @type {Map<string, Counts>} */
  const things = new Map();
  for (const photo of photos) {
    const result = resultOf(photo, labels);
    if (result !== "right" && result !== "wrong" && result !== "unknown") continue;
    const truth = photo.truth ?? NONE;
    const name = knownName(truth, labels) || truth.trim();
    const own = things.get(name) ?? nothing();
    things.set(name, own);
    for (const counts of [total, own]) {
      counts.photos += 1;
      counts[result] += 1;
    }
  }
  return { total, things };
}

/**
 * Write the results as CSV, a line for each photo that was judged; for spreadsheets, too.
 * @param {TestPhoto[]} photos
 * @param {string[]} labels
 */
export function asCsv(photos, labels) {
  const rows = [["photo", "truth", "answer", "confidence", "result"]];
  for (const photo of photos) {
    const result = resultOf(photo, labels);
    if (!JUDGED.includes(result)) continue;
    const confidence = photo.answer?.confidence ?? 0;
    const truth = photo.truth || "unknown";
    const answer = photo.answer?.label ?? "unknown";
    rows.push([photo.name, truth, answer, confidence.toFixed(3), result]);
  }
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

/**
 * Write a cell that a spreadsheet takes for text, whatever it begins with.
 * @param {string} text
 */
function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
