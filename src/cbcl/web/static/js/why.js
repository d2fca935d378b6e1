// @ts-check
// Draws why: the photos that the answer comes from, and what else it might be.

import { reasonsOf, runnersUp } from "./answer_state.js";
import { exampleImage, find, make } from "./dom.js";
import { memory } from "./memory.js";
import { percent, sayNodes } from "./words.js";

/** @import { Answer, Guess, ReasonRow } from "./types.d.ts" */

/**
 * Draw the reasons of an answer and its runners-up; null: there is none.
 * @param {Answer | null} answer
 */
export function drawWhy(answer) {
  const reasons = answer ? reasonsOf(answer) : [];
  find("why").hidden = reasons.length === 0;
  find("wrong").hidden = !answer?.label || memory.private || !memory.abilities.includes("suspects");
  redraw(find("reasons"), reasons, reasonItem);
  redraw(find("runners"), runnersUp(answer), runnerItem);
}

/**
 * Fill a list, unless it shows the same already.
 * @template T
 * @param {HTMLElement} list
 * @param {T[]} items
 * @param {(item: T) => HTMLElement} makeItem
 */
function redraw(list, items, makeItem) {
  const key = JSON.stringify(items);
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...items.map(makeItem));
}

/** @param {ReasonRow} reason */
function reasonItem({ words, label, examples }) {
  const faces = examples.length ? examples : [null];
  const images = faces.map((example) => exampleImage(label, example));
  return make(
    "li",
    {},
    make("span", { class: "clip" }, sayNodes(words, { label: make("bdi", {}, label) })),
    make("span", { class: "thumbs", "aria-hidden": "true" }, images),
  );
}

/** @param {Guess} guess */
function runnerItem({ label, confidence }) {
  const name = make("bdi", { class: "clip" }, label);
  return make("li", {}, sayNodes("answer.runner", { label: name, percent: percent(confidence) }));
}
