// @ts-check
// The answer on the screen: headline, confidence, the examples it is like, and what else it may be.

import { fillBar, find, make } from "./dom.js";
import { kindOf, reasonsOf, runnersUp } from "./verdict.js";
import { percent, say, sayNodes } from "./words.js";

/** @import { Answer, Guess, Model } from "./app_types.d.ts" */
/** @import { ShownReason } from "./verdict.js" */

const STEADY_COUNT = 3; // live answers in a row that say the same, until they are read out

/** Whether the answer shown is about a photo, or about what the camera sees. */
export const answersShown = { photo: false };

const streak = { said: "", times: 0 };

/** @param {Answer} answer */
export function headlineOf(answer) {
  const { label } = answer;
  if (label === null) return say("answer.unknown");
  return kindOf(answer) === "maybe" ? say("answer.maybe", { label }) : label;
}

/** @param {Answer} answer */
function sentenceOf(answer) {
  if (kindOf(answer) !== "known") return headlineOf(answer);
  return say("answer.known", { label: answer.label ?? "", percent: percent(answer.confidence) });
}

/**
 * Say something in place of an answer.
 * @param {string} words
 */
export function drawWaiting(words) {
  find("answer").dataset.kind = "waiting";
  find("answer-label").textContent = words;
  for (const id of ["answer-percent", "answer-sure", "answer-note"]) find(id).textContent = "";
  find("why").hidden = true;
  find("others").replaceChildren();
  drawBar(0, words);
}

/**
 * @param {Answer} answer
 * @param {Model} model
 */
export function drawAnswer(answer, model) {
  const kind = kindOf(answer);
  const isNamed = kind !== "unknown";
  find("answer").dataset.kind = kind;
  find("answer-label").textContent = headlineOf(answer);
  find("answer-percent").textContent = isNamed ? percent(answer.confidence) : "";
  find("answer-sure").textContent = isNamed ? say("answer.sure") : "";
  drawBar(answer.confidence, sentenceOf(answer));
  const reasons = reasonsOf(answer, model.exampleLabels);
  drawReasons(reasons, model);
  const closest = say("answer.closest", { label: answer.ranking[0].label });
  find("answer-note").textContent = isNamed || reasons.length ? "" : closest;
  find("others").replaceChildren(...runnersUp(answer).map(guessRow));
  tell(sentenceOf(answer));
}

/** @param {number} confidence @param {string} words */
function drawBar(confidence, words) {
  const bar = find("answer-bar");
  fillBar(bar, confidence);
  bar.setAttribute("aria-valuenow", String(Math.round(confidence * 100)));
  bar.setAttribute("aria-valuetext", words);
}

/**
 * Read a new answer out once it stands.
 * @param {string} words
 */
function tell(words) {
  streak.times = streak.said === words ? streak.times + 1 : 1;
  streak.said = words;
  const steady = answersShown.photo ? 1 : STEADY_COUNT;
  if (streak.times === steady) find("answer-said").textContent = words;
}

/** @param {Guess} guess */
function guessRow({ label, confidence }) {
  const bar = make("span", { class: "bar thin" }, make("span"));
  fillBar(bar, confidence);
  const name = make("span", { class: "clip", dir: "auto" }, label);
  const number = make("span", { class: "quiet digits" }, percent(confidence));
  return make("li", {}, name, bar, number);
}

/** @param {ShownReason[]} reasons @param {Model} model */
function drawReasons(reasons, model) {
  find("why").hidden = reasons.length === 0;
  const list = find("reasons");
  const key = JSON.stringify(reasons);
  if (list.dataset.key === key) return; // the same pictures again need no new nodes
  list.dataset.key = key;
  list.replaceChildren(...reasons.map((reason) => reasonRow(reason, model)));
}

/** @param {ShownReason} reason @param {Model} model */
function reasonRow({ key, label, examples }, model) {
  const images = examples.map((number) =>
    make("img", { class: "thumb", src: model.exampleUrls[number], alt: "" }),
  );
  const words = sayNodes(key, { label: make("bdi", {}, label) });
  return make(
    "li",
    {},
    make("span", {}, ...words),
    make("span", { class: "thumbs", "aria-hidden": "true" }, images),
  );
}
