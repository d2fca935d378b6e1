// @ts-check
// Draws the answer, which why.js explains; takes the confirmation or correction.

import {
  chipLabels, headlineOf, isDoubtful, isHeld, isNewlySteady, kindOf, NO_ANSWER, withAnswer,
  withHold, withoutHolds, withoutStreak,
} from "./answer_state.js";
import { button, fillBar, find, loadSetting, saveSetting, setSource } from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { giveFocusBack, holdWhileChoosing } from "./hold.js";
import { labelNames, memory, memoryEvents, NONE, syncTo } from "./memory.js";
import { describeLearned, describePraise, teach } from "./teaching.js";
import { attempt, notifyError } from "./toasts.js";
import { drawWhy } from "./why.js";
import { percent, say } from "./words.js";

/** @import { Answer, Picture } from "./types.d.ts" */
/** @import { ApiError } from "./api.js" */
/** @import { AnswerState, HoldReason } from "./answer_state.js" */

const CHIPS = 6;

/** Tells of "shown", "steady", "learning", "hold", "release" and "taught"; detail: the picture. */
export const answerEvents = new EventTarget();

let state = NO_ANSWER;
let confirmed = 0; // answers to which somebody said yes, since the page was opened

export function setUpAnswer() {
  find("chips").append(...Array.from({ length: CHIPS }, makeChip));
  drawWhy(null);
  reserveSpace(loadSetting("things", 0));
  find("yes").addEventListener("click", () => {
    const label = state.current?.answer.label;
    if (label) confirm(label);
  });
  find("none-of-these").addEventListener("click", () => teachShown(NONE));
  memoryEvents.addEventListener("changed", () => {
    reserveSpace(memory.labels.length);
    if (state.current && !isHeld(state)) drawChoices(state.current.answer);
  });
  holdWhileChoosing(find("correction"), hold);
}

/** The answer on the screen. */
export const shownAnswer = () => state.current?.answer ?? null;

/** The picture that the answer on the screen is about. */
export const shownPicture = () => state.current?.picture ?? null;

export const isAnswerHeld = () => isHeld(state);

/**
 * Keep room for as much as there can be to say, from the first moment on: nothing jumps later.
 * @param {number} things
 */
function reserveSpace(things) {
  saveSetting("things", things);
  find("answer").classList.toggle("roomy", things > 0);
}

const chipNodes = () => /** @type {HTMLElement[]} */ ([...find("chips").children]);

/**
 * Hold the answer for a reason, or no longer for that one: nobody can judge what moves.
 * @param {HoldReason} reason
 * @param {boolean} on
 */
export const hold = (reason, on) => become(withHold(state, reason, on));

/**
 * Go on with another state; tell if the answer is held from now on, or released.
 * @param {AnswerState} next
 */
function become(next) {
  const before = isHeld(state);
  state = next;
  if (isHeld(state) !== before) emit(before ? "release" : "hold", shownPicture());
}

/**
 * Show an answer about a picture; while one is held, only that one is shown.
 * @param {Answer} answer
 * @param {Picture} picture
 */
export function showAnswer(answer, picture) {
  if (isHeld(state)) return;
  become(withAnswer(state, answer, picture));
  draw(answer, picture);
  if (isNewlySteady(state)) {
    find("answer-said").textContent = sentenceOf(answer);
    emit("steady", picture);
  }
  emit("shown", picture);
}

/**
 * Show no answer, and say why in a few words.
 * @param {string} words
 */
export function clearAnswer(words) {
  become({ ...NO_ANSWER, learning: state.learning });
  find("answer").dataset.kind = "waiting";
  find("answer-label").textContent = words;
  for (const id of ["answer-percent", "answer-sure", "answer-note", "answer-said"]) {
    find(id).textContent = "";
  }
  drawSubject(null);
  find("correction").hidden = true;
  fillBar(find("answer-bar"), 0);
  drawWhy(null);
  emit("shown", null);
}

/** @param {Answer} answer @param {Picture} picture */
function draw(answer, picture) {
  const kind = kindOf(answer);
  find("answer").dataset.kind = isDoubtful(answer) ? "maybe" : kind;
  find("answer-label").textContent = headlineOf(answer);
  drawSubject(picture);
  drawConfidence(answer);
  drawWhy(answer);
  drawChoices(answer);
  find("correction").hidden = kind === "nothing";
}

/**
 * Show a picture that is not in the viewfinder beside what is said of it.
 * @param {Picture | null} picture
 */
function drawSubject(picture) {
  const subject = find("subject");
  subject.hidden = !picture?.url;
  if (picture?.url) setSource(subject, picture.url);
}

/** @param {Answer} answer */
function sentenceOf(answer) {
  if (kindOf(answer) !== "known") return headlineOf(answer);
  const sure = percent(answer.confidence ?? 0);
  return say("answer.known", { label: answer.label ?? "", percent: sure });
}

/** @param {Answer} answer */
function drawConfidence(answer) {
  const nothing = answer.confidence === null;
  const confidence = answer.confidence ?? 0;
  const known = answer.label !== null;
  find("answer-percent").textContent = known ? percent(confidence) : "";
  find("answer-sure").textContent = known ? say("answer.sure") : "";
  find("answer-note").textContent = nothing ? say("answer.first") : "";
  const bar = find("answer-bar");
  fillBar(bar, confidence);
  bar.setAttribute("aria-valuenow", String(Math.round(confidence * 100)));
  bar.setAttribute("aria-valuetext", sentenceOf(answer));
}

function makeChip() {
  const chip = button("", () => teachShown(chip.dataset.label ?? ""), {
    class: "chip clip",
    dir: "auto",
    hidden: true,
  });
  return chip;
}

/**
 * Offer the choices of this answer, and of no other: they and the headline are drawn together.
 * @param {Answer} answer
 */
function drawChoices(answer) {
  const known = kindOf(answer) === "known";
  find("yes").hidden = !known;
  const label = answer.label ?? "";
  find("yes").textContent = say(known ? "answer.yes_label" : "answer.yes", { label });
  find("none-of-these").hidden = !memory.abilities.includes("negatives");
  find("correction-words").textContent = say(known ? "answer.no_its" : "answer.its");
  const chips = chipNodes();
  const before = chips.map((chip) => chip.dataset.label ?? "").filter(Boolean);
  const labels = chipLabels(answer, labelNames(), before);
  for (const [index, chip] of chips.entries()) {
    chip.hidden = index >= labels.length;
    chip.dataset.label = labels[index] ?? "";
    chip.textContent = labels[index] ?? "";
  }
}

/**
 * Take a yes: it counts; the picture is learned if it is new, and it is said whether it was.
 * @param {string} label
 */
async function confirm(label) {
  if (!(await teachShown(label, undefined, describePraise))) return;
  confirmed += 1;
  find("confirmed").hidden = false;
  find("confirmed").textContent = say("answer.confirmed", { count: confirmed });
}

/**
 * Teach the picture that was answered: a label, or NONE; true if it was done.
 * @param {string} label
 * @param {(error: ApiError) => boolean} [isTold]
 */
export async function teachShown(label, isTold, describe = describeLearned) {
  const picture = shownPicture();
  if (!picture || state.learning) return false;
  setLearning(true);
  const result = await attempt(() => teach(label, [picture]), isTold);
  setLearning(false);
  if (!result) return false;
  const { problems, learned, revision, steps } = result;
  problems.forEach((problem) => notifyError(problem.message));
  if (learned) notifyUndoable(describe(label, result), revision, { steps });
  syncTo(revision);
  showThatItWasTaught(picture);
  return true;
}

export const isLearning = () => state.learning;

/** @param {boolean} learning */
function setLearning(learning) {
  state = { ...state, learning };
  find("answer").classList.toggle("learning", learning);
  emit("learning", shownPicture());
}

/** @param {Picture} picture */
function showThatItWasTaught(picture) {
  giveFocusBack(find("correction"));
  become(withoutHolds(withoutStreak(state)));
  emit("taught", picture);
}

/** @param {string} name @param {Picture | null} picture */
function emit(name, picture) {
  answerEvents.dispatchEvent(new CustomEvent(name, { detail: picture }));
}
