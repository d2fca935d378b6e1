// @ts-check
// Requests about pictures: by digest for those the server has seen, by upload for the others.

import { formData, post } from "./api.js";
import { nameOf, NONE, tellTaught } from "./memory.js";
import { say } from "./words.js";

/** @import { Answers, Learned, Picture, Problem } from "./types.d.ts" */

const MAX_FILES = 8; // in a request, so that progress is seen
const MAX_BYTES = 48e6; // in a request; the server takes 64 MB
export const MAX_DIGESTS = 100; // in a request
const MAX_DIGESTS_ALONE = 900; // in a request without files
const LABEL_SIZE = 4; // digests that take as much room in a request as a label does
const MAX_FILE_BYTES = 64e6; // beyond, the server would hang up before it had read the whole

/**
 * Teach a label, or NONE, from pictures; return what was learned, and in how many steps: none if
 * all of it was known.
 * @param {string} label
 * @param {Picture[]} pictures
 */
export async function teach(label, pictures) {
  const total = nothingLearned();
  for (const group of splitIntoRequests(pictures)) {
    const send = (/** @type {Picture[]} */ some) =>
      label === NONE
        ? post("/api/negatives", formData(fieldsOf(some)))
        : post("/api/examples", formData({ label, ...fieldsOf(some) }));
    for (const { result } of await sendGroup(group, send)) addLearned(total, result);
  }
  tellTaught(label, total.revision);
  return total;
}

/** @typedef {Learned & { problems: Problem[], revision: number, steps: number }} TotalLearned */

/** @returns {TotalLearned} */
const nothingLearned = () => ({
  learned: 0, copies: 0, moved: {}, problems: [], revision: 0, steps: 0,
});

/**
 * @param {TotalLearned} total
 * @param {import("./types.d.ts").PostResponses["/api/examples"]} result
 */
function addLearned(total, result) {
  const [learned, copies] = [sumOf(result.learned), sumOf(result.copies)];
  total.learned += learned;
  total.copies += copies;
  for (const [from, number] of Object.entries(result.moved)) {
    total.moved[from] = (total.moved[from] ?? 0) + number;
  }
  total.problems.push(...result.problems);
  total.revision = result.revision;
  if (learned > copies || sumOf(result.moved)) total.steps += 1;
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
    return say("learned.nothing", { count: learned });
  }
  const from = Object.keys(moved).map(nameOf).join(", ");
  const into = nameOf(label);
  if (sumOf(moved) === learned) return say("done.move", { count: learned, from, into });
  const key = label === NONE ? "learned.none" : "learned.photos";
  const sentences = [say(key, { count: learned - copies, label: into })];
  if (from) sentences.push(say("learned.moved", { count: sumOf(moved), from }));
  if (copies) sentences.push(say("learned.copies", { count: copies }));
  return sentences.join(" ");
}

/**
 * Thank for a yes, and say whether there was something to learn from it.
 * @param {string} label
 * @param {Learned} result
 */
export function describePraise(label, result) {
  if (sumOf(result.moved)) return describeLearned(label, result);
  return say(result.copies < result.learned ? "praise.learned" : "praise.nothing", { label });
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

/**
 * Teach several labels in one step, or as few as the limit allows; what the server has forgotten is
 * looked at again before.
 * @param {[label: string, pictures: Picture[]][]} things
 * @param {AbortSignal} signal
 */
export async function teachMany(things, signal) {
  const total = nothingLearned();
  for (const part of splitThings(things)) {
    addLearned(total, await learnMany(part, signal));
  }
  tellTaught(things[0][0], total.revision);
  return total;
}

/** @param {[label: string, pictures: Picture[]][]} things @param {AbortSignal} signal */
async function learnMany(things, signal) {
  try {
    const digests = things.map(([label, pictures]) => ({ label, seen: digestsOf(pictures) }));
    return await post("/api/learn-many", { things: digests }, { signal });
  } catch (error) {
    if (error.kind !== "seen") throw error;
    const lost = things.flatMap(([, pictures]) => withoutDigests(pictures, error.seen));
    await recognizeMany(lost.filter((picture) => !picture.seen), () => {}, signal);
    const digests = things.map(([label, pictures]) => ({ label, seen: digestsOf(pictures) }));
    return post("/api/learn-many", { things: digests }, { signal });
  }
}

/** @param {Picture[]} pictures */
const digestsOf = (pictures) => pictures.flatMap(({ seen }) => seen ?? []);

/**
 * Split things into as few requests as the limit on digests allows.
 * @param {[label: string, pictures: Picture[]][]} things
 */
export function splitThings(things) {
  /** @type {[label: string, pictures: Picture[]][][]} */
  const parts = [];
  let room = 0;
  for (const [label, pictures] of things) {
    for (let start = 0; start < pictures.length; ) {
      if (room === 0) {
        parts.push([]);
        room = MAX_DIGESTS_ALONE;
      }
      const some = pictures.slice(start, start + room);
      parts[parts.length - 1].push([label, some]);
      start += some.length;
      room = Math.max(0, room - some.length - LABEL_SIZE);
    }
  }
  return parts;
}

/**
 * Say what was learned of several things.
 * @param {number} things
 * @param {Learned} result
 */
export function describeLearnedMany(things, { learned, copies }) {
  if (copies === learned) return say("learned.nothing", { count: learned });
  const sentences = [
    say("learned.many", {
      photos: say("photos", { count: learned - copies }),
      things: say("things.count", { count: things }),
    }),
  ];
  if (copies) sentences.push(say("learned.copies", { count: copies }));
  return sentences.join(" ");
}

/**
 * Group pictures that look alike; each group is the pictures' keys.
 * @param {{ key: number, seen: string | null }[]} pictures
 * @param {AbortSignal} signal
 * @returns {Promise<number[][]>}
 */
export async function groupAlike(pictures, signal) {
  /** @type {Map<string, number[]>} */
  const keys = new Map();
  for (const { key, seen } of pictures) {
    if (seen) keys.set(seen, [...(keys.get(seen) ?? []), key]);
  }
  const seen = [...keys.keys()].slice(0, MAX_DIGESTS_ALONE);
  if (seen.length < 2) return [];
  const { groups } = await post("/api/group", { seen }, { signal });
  return groups.map((group) => group.flatMap((digest) => keys.get(digest) ?? []));
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
 * @returns {Problem | null}
 */
export function findSendProblem(blob, name) {
  if (blob.size === 0) {
    const message = say("errors.empty", { name });
    return { picture: name, message, problem: say("errors.empty_each") };
  }
  if (blob.size <= MAX_FILE_BYTES) return null;
  const message = say("errors.large", { name, size: Math.round(blob.size / 1e6) });
  return { picture: name, message, problem: say("errors.large_each") };
}
