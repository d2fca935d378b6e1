// @ts-check
// State of the tray: pure functions, without the page; tray.js asks and teaches, tiles.js draws.

import { drawableUrl } from "./drawable.js";
import { findSpelledAlike } from "./spelling.js";

/** @import { AlikeGroup, Answer, Answers, Problem, TrayPicture } from "./types.d.ts" */

const SURE_CONFIDENCE = 0.8; // guesses this sure can be accepted together
const MIN_CONFIDENCE = 0.2; // of a label, for the question whether a picture shows it, too
const MAX_GROUPS = 6; // of each kind
const MAX_PRESELECTED = 12; // pictures at once, beyond which they are hardly all of one thing

/**
 * @typedef {object} Tray
 * @property {TrayPicture[]} pictures in the order of the screen
 * @property {Problem[]} problems pictures that could not be used, and why
 * @property {boolean} asking a request about pictures is on its way
 * @property {{ done: number, all: number } | null} progress of asking
 * @property {number[]} learning keys of the pictures that are being taught
 * @property {number | null} revision of the memory when all were last asked about
 * @property {boolean} unsorted pictures have come since they were last sorted
 * @property {AlikeGroup[]} alike unknown pictures that look alike, the largest group first
 * @property {string | null} taught the label of which it is asked whether others show it, too
 */

/** @type {Tray} */
export const EMPTY_TRAY = Object.freeze({
  pictures: [],
  problems: [],
  asking: false,
  progress: null,
  learning: [],
  revision: null,
  unsorted: false,
  alike: [],
  taught: null,
});

/** @param {{ key: number }[]} pictures */
export const keysOf = (pictures) => pictures.map((picture) => picture.key);

/**
 * Return the pictures of these keys, as they are now; those that have left are left out.
 * @param {Tray} tray
 * @param {number[]} keys
 */
export const picturesOf = (tray, keys) =>
  tray.pictures.filter((picture) => keys.includes(picture.key));

/** @param {Tray} tray */
export const chosenOf = (tray) => tray.pictures.filter((picture) => picture.chosen);

/** @param {Tray} tray */
export const skippedOf = (tray) => tray.pictures.filter((picture) => picture.skipped);

/** @param {Tray} tray */
export const waitingOf = (tray) =>
  tray.pictures.filter((picture) => !picture.answer && !picture.skipped);

/**
 * Tell whether the answers or their order are older than the memory or the pictures.
 * @param {Tray} tray
 * @param {number | null} revision
 */
export function isOutdated(tray, revision) {
  const asked = tray.pictures.some((picture) => picture.seen);
  return asked && (tray.unsorted || tray.revision !== revision);
}

/**
 * Replace each picture by a copy with the fields that a function gives.
 * @param {Tray} tray
 * @param {(picture: TrayPicture) => Partial<TrayPicture>} change
 * @returns {Tray}
 */
function mapPictures(tray, change) {
  return { ...tray, pictures: tray.pictures.map((each) => ({ ...each, ...change(each) })) };
}

/**
 * Put new pictures in front, the latest first; many at once, or of several folders, are not chosen.
 * @param {Tray} tray
 * @param {TrayPicture[]} pictures
 * @returns {Tray}
 */
export function withPictures(tray, pictures) {
  const folders = new Set(pictures.map(({ folder }) => folder));
  const chosen = pictures.length <= MAX_PRESELECTED && folders.size < 2;
  const entered = pictures.map((picture) => ({ ...picture, chosen })).reverse();
  return { ...tray, pictures: [...entered, ...tray.pictures] };
}

/**
 * Put pictures back that had left.
 * @param {Tray} tray
 * @param {TrayPicture[]} pictures
 * @returns {Tray}
 */
export function withRestored(tray, pictures) {
  const there = keysOf(tray.pictures);
  const back = pictures.filter((picture) => !there.includes(picture.key));
  return { ...tray, pictures: [...back, ...tray.pictures], unsorted: true };
}

/** @param {Tray} tray @param {number[]} keys @returns {Tray} */
export function withoutPictures(tray, keys) {
  return { ...tray, pictures: tray.pictures.filter(({ key }) => !keys.includes(key)) };
}

/**
 * Choose the pictures of which a test is true, and no others.
 * @param {Tray} tray
 * @param {(picture: TrayPicture) => boolean} test
 */
export const withChosen = (tray, test) =>
  mapPictures(tray, (picture) => ({ chosen: test(picture) }));

/**
 * Mark the pictures without an answer as skipped, or none.
 * @param {Tray} tray
 * @param {boolean} skipped
 */
export function withSkipped(tray, skipped) {
  return mapPictures(tray, ({ answer }) => ({ skipped: skipped && !answer }));
}

/**
 * Start or end asking; progress is kept only for pictures that were skipped.
 * @param {Tray} tray
 * @param {boolean} asking
 * @returns {Tray}
 */
export function withAsking(tray, asking) {
  return { ...tray, asking, progress: skippedOf(tray).length ? tray.progress : null };
}

/**
 * Take the answers about some pictures; those that cannot be read leave, and the reason stays.
 * @param {Tray} tray
 * @param {TrayPicture[]} group
 * @param {Answers["answers"]} answers
 * @returns {Tray}
 */
export function withAnswers(tray, group, answers) {
  const problems = [...tray.problems];
  /** @type {Map<number, Answer>} */
  const given = new Map();
  const failed = /** @type {number[]} */ ([]);
  for (const [index, picture] of group.entries()) {
    const answer = answers[index];
    if ("error" in answer) {
      const { message, problem } = answer.error;
      problems.push({ picture: picture.name, message, problem });
      failed.push(picture.key);
    } else given.set(picture.key, answer);
  }
  const left = withoutPictures({ ...tray, problems }, failed);
  return mapPictures(left, (picture) => {
    const answer = given.get(picture.key);
    if (!answer) return {};
    // A file that is known already adds nothing, so it is not among those to be taught.
    const isOld = !picture.answer && isKnown({ answer }) && picture.blob instanceof File;
    const { seen } = answer;
    return { answer, seen, url: drawableUrl(picture, seen), chosen: picture.chosen && !isOld };
  });
}

/**
 * Rank a group by the order that the server gives: base for the first, below base + 1 for the last.
 * @param {Tray} tray
 * @param {TrayPicture[]} group
 * @param {number[]} order indices of the group, the most worth naming first
 * @param {number} base
 */
export function withRanks(tray, group, order, base) {
  const ranked = order.map((index) => group[index].key);
  return mapPictures(tray, ({ key }) => {
    const place = ranked.indexOf(key);
    return place < 0 ? {} : { rank: base + place / order.length };
  });
}

/** @param {Tray} tray @returns {Tray} */
export function sorted(tray) {
  return { ...tray, pictures: [...tray.pictures].sort((a, b) => a.rank - b.rank) };
}

/**
 * Group sure guesses of the same label, the largest group first.
 * @param {Tray} tray
 * @returns {[label: string, pictures: TrayPicture[]][]}
 */
export function groupsOf(tray) {
  /** @type {Map<string, TrayPicture[]>} */
  const byLabel = new Map();
  for (const picture of tray.pictures) {
    const { label, confidence } = picture.answer ?? {};
    if (!label || (confidence ?? 0) < SURE_CONFIDENCE) continue;
    if (!isOpen(picture) || picture.denied.includes(label)) continue;
    byLabel.set(label, [...(byLabel.get(label) ?? []), picture]);
  }
  const many = [...byLabel].filter(([, pictures]) => pictures.length > 1);
  return many.sort((a, b) => b[1].length - a[1].length).slice(0, MAX_GROUPS);
}

/**
 * Tell whether a picture, or one nearly the same, was taught before.
 * @param {{ answer: Answer | null }} picture
 */
export const isKnown = ({ answer }) => typeof answer?.taught === "string";

/** @param {Tray} tray */
export const knownOf = (tray) => tray.pictures.filter(isKnown);

/**
 * Tell whether nothing but a person can say what a picture shows: no memory, and no folder.
 * @param {TrayPicture} picture
 */
const isOpen = (picture) => !isKnown(picture) && picture.folder === null;

/**
 * Return those that are files: frames of a camera were taken together, to be named together.
 * @param {TrayPicture[]} pictures
 */
export const filesOf = (pictures) => pictures.filter(({ blob }) => blob instanceof File);

/**
 * Return those that are kept nowhere else: the photos of the inbox are on the server.
 * @param {TrayPicture[]} pictures
 */
export const ownOf = (pictures) => pictures.filter(({ inbox }) => !inbox);

/** @param {Tray} tray */
export const unknownOf = (tray) =>
  tray.pictures.filter((picture) => picture.answer?.label === null && isOpen(picture));

/**
 * Take new groups of unknown pictures; one that shares pictures with an old one keeps its id.
 * Pictures of several things are not chosen to be taught as one, unless a person does so.
 * @param {Tray} tray
 * @param {number[][]} groups keys of pictures
 * @returns {Tray}
 */
export function withAlike(tray, groups) {
  const left = [...tray.alike];
  let next = Math.max(0, ...left.map(({ id }) => id)) + 1;
  const alike = groups.map((keys) => {
    const shared = left.map((group) => group.keys.filter((key) => keys.includes(key)).length);
    const best = shared.indexOf(Math.max(...shared));
    if (best < 0 || shared[best] === 0) return { id: next++, keys };
    return { id: left.splice(best, 1)[0].id, keys };
  });
  const before = new Set(tray.alike.flatMap(({ keys }) => keys));
  const parted = alike.length > 1 ? alike.flatMap(({ keys }) => keys) : [];
  const fresh = new Set(parted.filter((key) => !before.has(key)));
  const chosen = withChosen(tray, (picture) => picture.chosen && !fresh.has(picture.key));
  return { ...chosen, alike };
}

/**
 * Return the groups of pictures that look alike and are still unknown, two or more in each; none
 * where all pictures are one group, which is what the name field is for.
 * @param {Tray} tray
 */
export function alikeOf(tray) {
  const unknown = new Map(unknownOf(tray).map((picture) => [picture.key, picture]));
  return tray.alike
    .map(({ id, keys }) => ({ id, pictures: keys.flatMap((key) => unknown.get(key) ?? []) }))
    .filter(({ pictures }) => pictures.length > 1 && pictures.length < tray.pictures.length)
    .slice(0, MAX_GROUPS);
}

/**
 * Return the pictures to learn of each folder, by its name, or that of the thing with nearly this
 * name; pictures that are known already are not among them.
 * @param {Tray} tray
 * @param {string[]} names of the things that are known
 * @returns {[label: string, pictures: TrayPicture[]][]}
 */
export function foldersOf(tray, names) {
  /** @type {Map<string, TrayPicture[]>} */
  const byFolder = new Map();
  for (const picture of tray.pictures) {
    if (picture.folder === null || isKnown(picture)) continue;
    const label = findSpelledAlike(picture.folder, names) ?? picture.folder;
    byFolder.set(label, [...(byFolder.get(label) ?? []), picture]);
  }
  return [...byFolder].sort(([a], [b]) => a.localeCompare(b));
}

/**
 * Forget the names of folders: the pictures are to be grouped as others are.
 * @param {Tray} tray
 * @returns {Tray}
 */
export const withoutFolders = (tray) => ({
  ...mapPictures(tray, () => ({ folder: null })),
  unsorted: true,
});

/**
 * Return the pictures that might show what was just taught, too, the likeliest first.
 * @param {Tray} tray
 */
export function maybeOf(tray) {
  const { taught } = tray;
  if (taught === null) return [];
  const grouped = groupsOf(tray).flatMap(([label, pictures]) => (label === taught ? pictures : []));
  const chance = (/** @type {TrayPicture} */ { answer }) => {
    const [guess] = answer?.ranking ?? [];
    return guess?.label === taught ? guess.confidence : 0;
  };
  return tray.pictures
    .filter((picture) => isOpen(picture) && !picture.denied.includes(taught))
    .filter((picture) => chance(picture) >= MIN_CONFIDENCE && !grouped.includes(picture))
    .sort((a, b) => chance(b) - chance(a));
}

/**
 * Note that a picture does not show this.
 * @param {Tray} tray
 * @param {number} key
 * @param {string} label
 */
export const withDenied = (tray, key, label) =>
  mapPictures(tray, (picture) =>
    picture.key === key ? { denied: [...picture.denied, label] } : {},
  );

/**
 * Put problems of the same kind together; what they say is told as far as it is the same.
 * @param {Problem[]} problems
 */
export function groupProblems(problems) {
  /** @type {Map<string, Problem[]>} */
  const byKind = new Map();
  for (const problem of problems) {
    const [kind] = reasonOf(problem).split(":", 1);
    byKind.set(kind, [...(byKind.get(kind) ?? []), problem]);
  }
  return [...byKind].map(([kind, same]) => {
    const [reason, other] = new Set(same.map(reasonOf));
    return { kind, reason: other === undefined ? reason : kind, problems: same };
  });
}

/** @param {Problem} problem */
const reasonOf = ({ picture, message, problem }) =>
  problem ?? message.replace(picture, "").trim().replace(/\.$/, "");
