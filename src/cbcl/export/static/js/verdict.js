// @ts-check
// What an answer says: pure functions, without the page; answer_view.js draws it.

/** @import { Answer, Guess } from "./app_types.d.ts" */

const DOUBTFUL = 0.5; // confidence below which a name is only a guess
const MIN_SHOWN = 0.01; // confidence of a runner-up that is worth a row
const MAX_RUNNERS = 3;
const MIN_AGAINST = 0.05; // confidence of the next label, from which on its pictures are shown
const MAX_LIKE = 3;
const MAX_UNLIKE = 1;

/** @typedef {"known" | "maybe" | "unknown"} VerdictKind */
/** @typedef {{ key: string, label: string, examples: number[] }} ShownReason */

/** @param {Answer} answer @returns {VerdictKind} */
export function kindOf({ label, confidence }) {
  if (label === null) return "unknown";
  return confidence < DOUBTFUL ? "maybe" : "known";
}

/**
 * List the guesses beside the answer, the likeliest first; without those of hardly any chance.
 * @param {Answer} answer
 * @returns {Guess[]}
 */
export function runnersUp({ label, ranking }) {
  const others = ranking.filter((guess) => guess.label !== label && guess.confidence >= MIN_SHOWN);
  return others.slice(0, MAX_RUNNERS);
}

/**
 * List the examples that the picture is most like: of the likeliest label, and of the next.
 * @param {Answer} answer
 * @param {string[]} labels of the examples
 * @returns {ShownReason[]}
 */
export function reasonsOf(answer, labels) {
  const [best, next] = answer.ranking;
  const key = answer.label === null ? "answer.closest" : "answer.like";
  const reasons = [reason(answer, labels, best.label, key, MAX_LIKE)];
  if (answer.label !== null && next?.label && next.confidence >= MIN_AGAINST) {
    reasons.push(reason(answer, labels, next.label, "answer.unlike", MAX_UNLIKE));
  }
  return reasons.filter(({ examples }) => examples.length);
}

/**
 * @param {Answer} answer
 * @param {string[]} labels
 * @param {string} label
 * @param {string} key
 * @param {number} most
 */
function reason({ distances }, labels, label, key, most) {
  const own = [...labels.keys()].filter((number) => labels[number] === label);
  const examples = distances ? own.sort((a, b) => distances[a] - distances[b]).slice(0, most) : [];
  return { key, label, examples };
}
