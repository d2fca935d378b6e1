// @ts-check
// State of the tray: pure functions, without the page; tray.js asks and teaches, tiles.js draws.

/** @import { Answer, Answers, Problem, TrayPicture } from "./types.d.ts" */

const SURE_CONFIDENCE = 0.8; // guesses this sure can be accepted together
const MAX_GROUPS = 6;
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
 * Put new pictures in front, the latest first; many at once are not chosen.
 * @param {Tray} tray
 * @param {TrayPicture[]} pictures
 * @returns {Tray}
 */
export function withPictures(tray, pictures) {
  const chosen = pictures.length <= MAX_PRESELECTED;
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
      problems.push({ picture: picture.name, message: answer.error.message });
      failed.push(picture.key);
    } else given.set(picture.key, answer);
  }
  const left = withoutPictures({ ...tray, problems }, failed);
  return mapPictures(left, ({ key }) => {
    const answer = given.get(key);
    return answer ? { answer, seen: answer.seen } : {};
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
    byLabel.set(label, [...(byLabel.get(label) ?? []), picture]);
  }
  const many = [...byLabel].filter(([, pictures]) => pictures.length > 1);
  return many.sort((a, b) => b[1].length - a[1].length).slice(0, MAX_GROUPS);
}
