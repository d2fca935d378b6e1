// @ts-check
// Requests about pictures: by digest for those the server has seen, by upload for the others.

import { formData, post } from "./api.js";
import { count } from "./dom.js";
import { nameOf, NONE } from "./memory.js";

/** @import { Answers, Learned, Picture, Problem } from "./types.d.ts" */

const MAX_FILES = 8; // in a request, so that progress is seen
const MAX_BYTES = 48e6; // in a request; the server takes 64 MB
export const MAX_DIGESTS = 100; // in a request
const MAX_FILE_BYTES = 64e6; // beyond, the server would hang up before it had read the whole

/**
 * Teach a label, or NONE, from pictures; return what was learned, and in how many steps.
 * @param {string} label
 * @param {Picture[]} pictures
 */
export async function teach(label, pictures) {
  /** @type {Learned & { problems: Problem[], revision: number, steps: number }} */
  const total = { learned: 0, copies: 0, moved: {}, problems: [], revision: 0, steps: 0 };
  for (const group of splitIntoRequests(pictures)) {
    const send = (/** @type {Picture[]} */ some) =>
      label === NONE
        ? post("/api/negatives", formData(fieldsOf(some)))
        : post("/api/examples", formData({ label, ...fieldsOf(some) }));
    for (const { result } of await sendGroup(group, send)) {
      total.learned += sumOf(result.learned);
      total.copies += sumOf(result.copies);
      for (const [from, number] of Object.entries(result.moved)) {
        total.moved[from] = (total.moved[from] ?? 0) + number;
      }
      total.problems.push(...result.problems);
      total.revision = result.revision;
      total.steps += 1;
    }
  }
  return total;
}

/** @param {Record<string, number>} numbers */
const sumOf = (numbers) => Object.values(numbers).reduce((sum, number) => sum + number, 0);

/**
 * Say what was learned: near-copies of known photos add nothing, others may have moved.
 * @param {string} label
 * @param {Learned} result
 */
export function describeLearned(label, { learned, copies, moved }) {
  if (copies === learned) {
    return `Nearly the same as ${learned === 1 ? "a photo" : "photos"} I have: nothing new.`;
  }
  const from = Object.keys(moved).map(nameOf).join(", ");
  const words = [`Learned ${count(learned - copies, "photo")} of ${nameOf(label)}`];
  if (from) words.push(`${count(sumOf(moved), "photo")} moved here from ${from}`);
  if (copies) words.push(`${count(copies, "photo")} nearly the same as ones I have`);
  return `${words.join("; ")}.`;
}

/**
 * Ask about one picture; fail at once where the server is busy.
 * @param {Picture} picture
 * @param {AbortSignal} signal
 */
export async function recognizeOne(picture, signal) {
  return post("/api/recognize", formData({ picture }), { signal, retry: false });
}

/**
 * Ask about pictures, group by group; each is called for every one.
 * @template {Picture} P
 * @param {P[]} pictures
 * @param {(group: P[], answers: Answers["answers"], order: number[]) => void} each
 * @param {AbortSignal} signal
 */
export async function recognizeMany(pictures, each, signal) {
  for (const group of splitIntoRequests(pictures)) {
    const send = (/** @type {P[]} */ some) => requestAnswers(some, signal);
    const parts = await sendGroup(group, send, signal);
    for (const { group: some, result } of parts) each(some, result.answers, result.order);
  }
}

/** @param {Picture[]} group @param {AbortSignal} signal @returns {Promise<Answers>} */
async function requestAnswers(group, signal) {
  try {
    return await post("/api/recognize-many", formData(fieldsOf(group)), { signal });
  } catch (error) {
    if (group.length > 1 || !["size", "picture"].includes(error.kind)) throw error;
    return { answers: [{ error }], order: [] };
  }
}

/**
 * Send a group; upload what the server has forgotten, send one by one what is too large together.
 * @template {Picture} P
 * @template R
 * @param {P[]} group
 * @param {(group: P[]) => Promise<R>} request
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ group: P[], result: R }[]>}
 */
async function sendGroup(group, request, signal) {
  try {
    return [{ group, result: await request(group) }];
  } catch (error) {
    signal?.throwIfAborted();
    if (error.kind === "seen" && group.some((picture) => picture.seen)) {
      const uploads = withoutDigests(group, error.seen);
      return sendInTurn(splitIntoRequests(uploads), request, signal);
    }
    if (error.kind !== "size" || group.length === 1) throw error;
    return sendInTurn(group.map((picture) => [picture]), request, signal);
  }
}

/**
 * Drop the digests that the server has forgotten; all, if it does not say which.
 * @template {Picture} P
 * @param {P[]} group
 * @param {string[]} forgotten
 */
export function withoutDigests(group, forgotten) {
  const isGone = (/** @type {P} */ { seen }) => seen !== null && forgotten.includes(seen);
  const all = !group.some(isGone);
  return group.map((picture) => (all || isGone(picture) ? { ...picture, seen: null } : picture));
}

/**
 * @template {Picture} P
 * @template R
 * @param {P[][]} groups
 * @param {(group: P[]) => Promise<R>} request
 * @param {AbortSignal} [signal]
 */
async function sendInTurn(groups, request, signal) {
  const parts = [];
  for (const group of groups) parts.push(...(await sendGroup(group, request, signal)));
  return parts;
}

/** @param {Picture[]} group */
const fieldsOf = (group) => ({
  pictures: group.filter((picture) => !picture.seen),
  seen: group.filter((picture) => picture.seen).map((picture) => picture.seen),
});

/**
 * Split pictures into as few requests as the limits allow.
 * In each, files come first, then digests: the answers come back in this order.
 * @template {Picture} P
 * @param {P[]} pictures
 */
export function splitIntoRequests(pictures) {
  const files = pictures.filter((picture) => !picture.seen);
  const digests = pictures.filter((picture) => picture.seen);
  const groups = [];
  while (files.length || digests.length) {
    const group = files.splice(0, countFitting(files));
    group.push(...digests.splice(0, MAX_DIGESTS - group.length));
    groups.push(group);
  }
  return groups;
}

/**
 * Count the first files that fit into one request: at least one.
 * @param {Picture[]} files
 */
function countFitting(files) {
  let size = 0;
  const over = files.slice(0, MAX_FILES).findIndex(({ blob }) => (size += blob.size) > MAX_BYTES);
  return over < 0 ? MAX_FILES : Math.max(1, over);
}

/**
 * Say why a file cannot even be sent; null if it can.
 * @param {Blob} blob
 * @param {string} name
 */
export function findSendProblem(blob, name) {
  const size = `${Math.round(blob.size / 1e6)} MB`;
  if (blob.size > MAX_FILE_BYTES) {
    return `${name} has ${size}, far more than I can read: make it smaller.`;
  }
  return blob.size === 0 ? `${name} is empty.` : null;
}
