// @ts-check
// State of the answer on the screen: pure functions, without the page; answer.js draws it.

import { say } from "./words.js";

/** @import { Answer, AnswerKind, Guess, Picture, ReasonRow } from "./types.d.ts" */

const MAX_FACES = 3; // pictures of a reason
const MIN_AGAINST = 0.05; // confidence of the next label, from which on it is worth a word
const MIN_CONFIDENCE = 0.5; // of an answer that is said without a doubt
const MIN_SHOWN = 0.005; // confidence of a guess that is shown: less is 0 %
const MAX_ALL_CHOICES = 6; // labels that can all be chips; of more, only those that were guessed
const STEADY_COUNT = 3; // live answers in a row that say the same

/** @typedef {"pointer" | "keyboard" | "name"} HoldReason */

/**
 * @typedef {object} AnswerState
 * @property {{ answer: Answer, picture: Picture } | null} current
 * @property {readonly HoldReason[]} holds why the answer stands still while it is being judged
 * @property {boolean} learning a correction is on its way
 * @property {{ kind: AnswerKind, label: string | null, times: number }} streak of equal answers
 */

/** @type {AnswerState} */
export const NO_ANSWER = Object.freeze({
  current: null,
  holds: Object.freeze([]),
  learning: false,
  streak: Object.freeze({ kind: "waiting", label: null, times: 0 }),
});

/**
 * Take a new answer; while one is held, it stays.
 * @param {AnswerState} state
 * @param {Answer} answer
 * @param {Picture} picture
 * @returns {AnswerState}
 */
export function withAnswer(state, answer, picture) {
  if (isHeld(state)) return state;
  const kind = kindOf(answer);
  const same = state.streak.kind === kind && state.streak.label === answer.label;
  const times = same ? state.streak.times + 1 : 1;
  return { ...state, current: { answer, picture }, streak: { kind, label: answer.label, times } };
}

/**
 * Tell whether the answer stands still; without an answer there is nothing to hold.
 * @param {AnswerState} state
 */
export const isHeld = (state) => state.current !== null && state.holds.length > 0;

/**
 * Give a reason to hold the answer, or take it back.
 * @param {AnswerState} state
 * @param {HoldReason} reason
 * @param {boolean} on
 * @returns {AnswerState}
 */
export function withHold(state, reason, on) {
  if (state.holds.includes(reason) === on) return state;
  const others = state.holds.filter((each) => each !== reason);
  return { ...state, holds: on ? [...others, reason] : others };
}

/**
 * Release the answer, whatever held it.
 * @param {AnswerState} state
 * @returns {AnswerState}
 */
export const withoutHolds = (state) => (state.holds.length ? { ...state, holds: [] } : state);

/**
 * Start the count of equal answers again: the next is told as new.
 * @param {AnswerState} state
 * @returns {AnswerState}
 */
export const withoutStreak = (state) => ({ ...state, streak: { ...state.streak, times: 0 } });

/**
 * Tell whether the answer has just become steady, and is not the one that was steady before.
 * @param {AnswerState} state
 */
export function isNewlySteady({ current, streak }) {
  return current !== null && streak.times === (current.picture.live ? STEADY_COUNT : 1);
}

/**
 * Tell whether an answer was given before the memory changed: its examples may be gone.
 * @param {Answer} answer
 * @param {number | null} revision
 */
export const isOutdated = (answer, revision) => revision !== null && answer.revision < revision;

/** @param {Answer} answer @returns {AnswerKind} */
export function kindOf(answer) {
  if (answer.confidence === null) return "nothing";
  return answer.label === null ? "unknown" : "known";
}

/** @param {Answer} answer */
export function headlineOf(answer) {
  if (answer.confidence === null) return say("answer.nothing");
  if (answer.label === null) return say("answer.unknown");
  return isDoubtful(answer) ? say("answer.maybe", { label: answer.label }) : answer.label;
}

/**
 * Tell whether a label was answered that is more probably wrong than right.
 * @param {Answer} answer
 */
export const isDoubtful = ({ label, confidence }) =>
  label !== null && (confidence ?? 0) < MIN_CONFIDENCE;

/**
 * List the guesses beside the answer, the likeliest first, without those of 0 %.
 * @param {Answer | null} answer
 * @returns {Guess[]}
 */
export const runnersUp = (answer) =>
  answer?.ranking.filter(
    ({ label, confidence }) => label !== answer.label && confidence > MIN_SHOWN,
  ) ?? [];

/**
 * List the reasons: what the picture looks like, and the next label, if that was close.
 * @param {Answer} answer
 * @returns {ReasonRow[]}
 */
export function reasonsOf(answer) {
  const [best, next] = answer.ranking;
  if (!best) return [];
  if (answer.label === null) return reasonRows(answer, best.label, "answer.closest");
  const like = reasonRows(answer, best.label, "answer.like");
  if (!next || next.confidence < MIN_AGAINST) return like;
  return [...like, ...reasonRows(answer, next.label, "answer.unlike")];
}

/**
 * @param {Answer} answer
 * @param {string} label
 * @param {string} words their key
 */
function reasonRows({ evidence }, label, words) {
  const reasons = evidence.filter((reason) => reason.label === label);
  const examples = [...new Set(reasons.flatMap((reason) => reason.examples))].slice(0, MAX_FACES);
  return reasons.length ? [{ words, label, examples }] : [];
}

/**
 * List the labels that may be right instead: those guessed first, without the one that was said.
 * @param {Answer | null} answer
 * @param {string[]} names
 */
export function otherLabels(answer, names) {
  const guessed = answer?.ranking.map((guess) => guess.label) ?? [];
  return [...new Set([...guessed, ...names])].filter((label) => label !== answer?.label);
}

/**
 * List the labels to offer as chips: if they are those of before, where those were.
 * @param {Answer} answer
 * @param {string[]} names
 * @param {string[]} before
 */
export function chipLabels(answer, names, before = []) {
  const others = otherLabels(answer, names);
  const guessed = answer.ranking.filter((guess) => guess.label !== answer.label);
  const labels = names.length > MAX_ALL_CHOICES ? others.slice(0, guessed.length) : others;
  const same = labels.length === before.length && labels.every((label) => before.includes(label));
  return same ? before : labels;
}
