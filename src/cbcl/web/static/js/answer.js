// @ts-check
// Draws the answer: label, confidence, runners-up, reasons; takes the confirmation or correction.

import {
  chipLabels, headlineOf, isNewlySteady, kindOf, NO_ANSWER, otherLabels, reasonsOf, runnersUp,
  withAnswer, withHeld, withoutStreak,
} from "./answer_state.js";
import { setUpCombobox } from "./combobox.js";
import {
  button, exampleImage, fillBar, find, loadSetting, make, percent, saveSetting,
} from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { labelNames, memory, memoryEvents, NONE, syncTo } from "./memory.js";
import { describeLearned, teach } from "./teaching.js";
import { attempt, notifyError } from "./toasts.js";

/** @import { Answer, Picture, ReasonRow } from "./types.d.ts" */

const RUNNER_ROWS = 3;
const CHIPS = 5;
const REST_MS = 1500; // after teaching, in which a resting pointer does not hold the answer

/** Tells of "hold" and "release", and of "taught" (detail: the picture). */
export const answerEvents = new EventTarget();

let state = NO_ANSWER;
let restUntil = 0; // by performance.now()

export function setUpAnswer() {
  find("runners").append(...Array.from({ length: RUNNER_ROWS }, makeRunner));
  find("chips").append(...Array.from({ length: CHIPS }, makeChip));
  drawRunners(null);
  reserveSpace(loadSetting("things", 0));
  find("yes").addEventListener("click", () => {
    const label = state.current?.answer.label;
    if (label) correct(label);
  });
  find("none-of-these").addEventListener("click", () => correct(NONE));
  find("correction-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = find("correction-name").value.trim();
    if (name) correct(name);
    else find("correction-name").focus();
  });
  setUpCombobox(find("correction-name"), () => otherLabels(currentAnswer(), labelNames()));
  memoryEvents.addEventListener("changed", () => {
    reserveSpace(memory.labels.length);
    if (state.current && !state.held) drawChoices(state.current.answer);
  });
  holdWhileChoosing(find("correction"));
}

const currentAnswer = () => state.current?.answer ?? null;

/** The picture that the answer on the screen is about. */
export const shownPicture = () => state.current?.picture ?? null;

export const isHeld = () => state.held;

/**
 * Keep room for as much as there can be to say, from the first moment on: nothing jumps later.
 * @param {number} things
 */
function reserveSpace(things) {
  saveSetting("things", things);
  find("answer").classList.toggle("roomy", things > 0);
  for (const [index, row] of rowsOf("runners").entries()) row.hidden = index + 1 >= things;
}

/** @param {"runners" | "chips"} id */
const rowsOf = (id) => /** @type {HTMLElement[]} */ ([...find(id).children]);

/**
 * Hold the answer while it is being judged: nobody can hit what moves.
 * @param {HTMLElement} area
 */
function holdWhileChoosing(area) {
  const isInside = (/** @type {EventTarget | null} */ node) =>
    node instanceof Node && area.contains(node);
  for (const name of ["pointerenter", "pointermove"]) {
    area.addEventListener(name, () => performance.now() > restUntil && setHeld(true));
  }
  for (const name of ["pointerdown", "focusin", "keydown"]) {
    area.addEventListener(name, () => setHeld(true));
  }
  area.addEventListener("pointerleave", () => isInside(document.activeElement) || setHeld(false));
  area.addEventListener("focusout", (event) => {
    if (!isInside(event.relatedTarget) && !area.matches(":hover")) setHeld(false);
  });
}

/** @param {boolean} held */
function setHeld(held) {
  const before = state;
  state = withHeld(state, held);
  if (state === before) return;
  // What can be clicked is about what is held.
  if (held && state.current) drawChoices(state.current.answer);
  emit(held ? "hold" : "release", shownPicture());
}

/**
 * Show an answer about a picture; while one is held, only that one is shown.
 * @param {Answer} answer
 * @param {Picture} picture
 */
export function showAnswer(answer, picture) {
  if (state.held) return;
  const before = currentAnswer();
  state = withAnswer(state, answer, picture);
  const steady = isNewlySteady(state);
  draw(answer, picture);
  if (steady || before === null || kindOf(before) === "nothing") drawChoices(answer);
  if (steady) find("answer-said").textContent = sentenceOf(answer);
}

/**
 * Show no answer, and say why in a few words.
 * @param {string} words
 */
export function clearAnswer(words) {
  setHeld(false);
  state = { ...NO_ANSWER, learning: state.learning };
  find("answer").dataset.kind = "waiting";
  find("answer-label").textContent = words;
  for (const id of ["answer-percent", "answer-sure", "answer-note", "answer-said"]) {
    find(id).textContent = "";
  }
  drawSubject(null);
  for (const id of ["correction", "why"]) find(id).hidden = true;
  fillBar(find("answer-bar"), 0);
  drawRunners(null);
}

/** @param {Answer} answer @param {Picture} picture */
function draw(answer, picture) {
  const kind = kindOf(answer);
  find("answer").dataset.kind = kind;
  find("answer-label").textContent = headlineOf(answer);
  drawSubject(picture);
  drawConfidence(answer);
  drawRunners(answer);
  drawReasons(answer);
  find("correction").hidden = kind === "nothing";
}

/**
 * Show a picture that is not in the viewfinder beside what is said of it.
 * @param {Picture | null} picture
 */
function drawSubject(picture) {
  const subject = find("subject");
  subject.hidden = !picture?.url;
  if (picture?.url && subject.getAttribute("src") !== picture.url) subject.src = picture.url;
}

/** @param {Answer} answer */
function sentenceOf(answer) {
  if (kindOf(answer) !== "known") return headlineOf(answer);
  return `${answer.label}, ${percent(answer.confidence ?? 0)} sure`;
}

/** @param {Answer} answer */
function drawConfidence(answer) {
  const nothing = answer.confidence === null;
  const confidence = answer.confidence ?? 0;
  find("answer-percent").textContent = nothing ? "" : percent(confidence);
  find("answer-sure").textContent = nothing ? "" : "sure";
  find("answer-note").textContent = nothing ? "Snap it three times, then type its name." : "";
  const bar = find("answer-bar");
  fillBar(bar, confidence);
  bar.setAttribute("aria-valuenow", String(Math.round(confidence * 100)));
  bar.setAttribute("aria-valuetext", sentenceOf(answer));
}

function makeRunner() {
  return make(
    "li",
    {},
    make("span", { class: "clip", dir: "auto" }),
    make("span", { class: "bar thin" }, make("span")),
    make("span", { class: "runner-percent digits" }),
  );
}

/** @param {Answer | null} answer */
function drawRunners(answer) {
  const guesses = runnersUp(answer);
  for (const [index, row] of rowsOf("runners").entries()) {
    const guess = guesses[index];
    const [name, bar, number] = row.children;
    row.classList.toggle("vacant", !guess);
    row.setAttribute("aria-hidden", String(!guess));
    name.textContent = guess?.label ?? "";
    number.textContent = guess ? percent(guess.confidence) : "";
    fillBar(bar, guess?.confidence ?? 0);
  }
}

function makeChip() {
  const chip = button("", () => correct(chip.dataset.label ?? ""), {
    class: "chip clip",
    dir: "auto",
    hidden: true,
  });
  return chip;
}

/** @param {Answer} answer */
function drawChoices(answer) {
  const known = kindOf(answer) === "known";
  const field = find("correction-name");
  find("yes").hidden = !known;
  find("yes").textContent = known ? `Yes, ${answer.label}` : "Yes";
  find("none-of-these").hidden = memory.head === "vote"; // which knows no such pictures
  find("correction-words").textContent = known ? "No, it’s" : "It’s";
  const others = otherLabels(answer, labelNames());
  field.placeholder = others.length ? "something else" : "type its name";
  field.setAttribute("aria-label", known ? "No, it’s…" : "It’s…");
  const labels = chipLabels(answer, labelNames());
  for (const [index, chip] of rowsOf("chips").entries()) {
    chip.hidden = index >= labels.length;
    chip.dataset.label = labels[index] ?? "";
    chip.textContent = labels[index] ?? "";
  }
}

/** @param {Answer} answer */
function drawReasons(answer) {
  const list = find("reasons");
  const reasons = reasonsOf(answer);
  find("why").hidden = reasons.length === 0;
  const key = JSON.stringify(reasons);
  if (list.dataset.key === key) return; // the same pictures again need no new nodes
  list.dataset.key = key;
  list.replaceChildren(...reasons.map(reasonRow));
}

/** @param {ReasonRow} reason */
function reasonRow({ words, named, label, examples }) {
  const faces = examples.length ? examples : [null];
  const images = faces.map((example) => exampleImage(label, example));
  return make(
    "li",
    { class: "row" },
    make("span", { class: "thumbs", "aria-hidden": "true" }, images),
    make("span", {}, words, named && make("bdi", {}, label)),
  );
}

/**
 * Teach the picture that was answered: a label, or NONE.
 * @param {string} label
 */
async function correct(label) {
  const picture = shownPicture();
  if (!picture || state.learning) return;
  setLearning(true);
  const result = await attempt(() => teach(label, [picture]));
  setLearning(false);
  if (!result) return;
  const { problems, learned, revision, steps } = result;
  problems.forEach((problem) => notifyError(problem.message));
  if (learned) notifyUndoable(describeLearned(label, result), revision, { steps });
  syncTo(revision);
  showThatItWasTaught(picture);
}

/** @param {boolean} learning */
function setLearning(learning) {
  state = { ...state, learning };
  find("answer").classList.toggle("learning", learning);
}

/** @param {Picture} picture */
function showThatItWasTaught(picture) {
  const field = find("correction-name");
  field.value = "";
  if (document.activeElement === field) field.blur();
  state = withoutStreak(state);
  restUntil = performance.now() + REST_MS;
  setHeld(false);
  emit("taught", picture);
}

/** @param {string} name @param {Picture | null} picture */
function emit(name, picture) {
  answerEvents.dispatchEvent(new CustomEvent(name, { detail: picture }));
}
