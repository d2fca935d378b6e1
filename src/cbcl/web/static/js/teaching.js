// Asks about pictures and teaches them: by digest what the server has seen, by upload what it has not, or forgot.

import { form, post } from "./api.js";

const FILES = 8; // in a request, so that progress is seen
const BYTES = 48e6; // in a request; the server takes 64 MB
export const DIGESTS = 100; // in a request
const LARGEST = 64e6; // beyond, the server would hang up before it had read the whole

/** Pictures are {name, blob, seen}; seen is the digest by which the server knows it, once it was asked about. */
export async function teach(label, pictures) {
  const told = { learned: 0, problems: [], revision: null, steps: 0 };
  for (const group of inGroups(pictures)) {
    const part = await again(group, (some) => post("/api/examples", form({ label, ...fields(some) })));
    for (const { answer } of part) {
      told.learned += Object.values(answer.learned).reduce((sum, number) => sum + number, 0);
      told.problems.push(...answer.problems);
      told.revision = answer.revision;
      told.steps += 1;
    }
  }
  return told;
}

/** Ask about one picture: at once, or not at all. */
export async function askOne(picture, options) {
  return post("/api/recognize", form({ picture }), { ...options, patient: false });
}

/** Ask about pictures, group by group; each(group, answers, order) is called for every one. */
export async function askMany(pictures, each, signal) {
  for (const group of inGroups(pictures)) {
    const parts = await again(group, (some) => ask(some, signal), signal);
    for (const { group: some, answer } of parts) each(some, answer.answers, answer.order);
  }
}

async function ask(group, signal) {
  try {
    return await post("/api/recognize-many", form(fields(group)), { signal });
  } catch (error) {
    if (group.length > 1 || !["size", "picture"].includes(error.kind)) throw error;
    return { answers: [{ picture: group[0].name, error }], order: [] };
  }
}

/** Send a group; those that the server has forgotten are uploaded, those too large together are sent one by one. */
async function again(group, request, signal) {
  try {
    return [{ group, answer: await request(group) }];
  } catch (error) {
    signal?.throwIfAborted();
    if (error.kind === "seen" && group.some((picture) => picture.seen)) {
      const gone = group.filter((picture) => error.seen.includes(picture.seen));
      for (const picture of gone.length ? gone : group) picture.seen = null;
      return inTurn(inGroups(group), request, signal);
    }
    if (error.kind !== "size" || group.length === 1) throw error;
    return inTurn(group.map((picture) => [picture]), request, signal);
  }
}

async function inTurn(groups, request, signal) {
  const done = [];
  for (const group of groups) done.push(...(await again(group, request, signal)));
  return done;
}

const fields = (group) => ({
  pictures: group.filter((picture) => !picture.seen),
  seen: group.filter((picture) => picture.seen).map((picture) => picture.seen),
});

/** As few groups as the limits allow; in each, files first, then those that were seen, as the answers come back. */
export function inGroups(pictures) {
  const files = pictures.filter((picture) => !picture.seen);
  const seen = pictures.filter((picture) => picture.seen);
  const groups = [];
  while (files.length || seen.length) {
    const group = files.splice(0, howMany(files));
    group.push(...seen.splice(0, DIGESTS - group.length));
    groups.push(group);
  }
  return groups;
}

/** How many of the first files go into one request: at least one. */
function howMany(files) {
  let size = 0;
  const over = files.slice(0, FILES).findIndex((file) => (size += file.blob.size) > BYTES);
  return over < 0 ? FILES : Math.max(1, over);
}

/** Why a file cannot even be sent; null if it can. */
export function unsendable(file) {
  const size = `${Math.round(file.size / 1e6)} MB`;
  if (file.size > LARGEST) return `${file.name} has ${size}, far more than I can read: make it smaller.`;
  return file.size === 0 ? `${file.name} is empty.` : null;
}
