// @ts-check
// Questions to the person: are these two the same?

import { get } from "./api.js";
import { button, exampleImage, find, loadSetting, make, saveSetting } from "./dom.js";
import { merge } from "./editing.js";
import { findThing, memory, memoryEvents } from "./memory.js";
import { say, sayNodes } from "./words.js";

/** @import { Advice, Alike } from "./types.d.ts" */

const MAX_QUESTIONS = 2; // at a time: more would be a nuisance
/** @type {Advice} */
let advice = { alike: [] };

export function setUpQuestions() {
  memoryEvents.addEventListener("changed", updateQuestions);
}

async function updateQuestions() {
  if (memory.labels.length === 0) advice = { alike: [] };
  else advice = await get("/api/advice").catch(() => advice); // no question is worth an error
  draw();
}

function draw() {
  const answered = differentPairs();
  const alike = advice.alike.filter(({ label, other }) => {
    return findThing(label) && findThing(other) && !answered.includes(pairKey(label, other));
  });
  const rows = alike.map(alikeRow).slice(0, MAX_QUESTIONS);
  find("question-list").replaceChildren(...rows);
  delete document.documentElement.dataset.questions; // the room kept for them is no longer a guess
  saveSetting("questions", rows.length);
}

/**
 * Pairs of labels that a person has said are two things, in this memory.
 * @returns {string[]}
 */
const differentPairs = () => loadSetting(`different:${memory.name}`, []);

/** @param {string} label @param {string} other */
const pairKey = (label, other) => JSON.stringify([label, other].sort());

/** @param {Alike} pair */
function alikeRow({ label, other }) {
  const examples = (/** @type {string} */ name) => findThing(name)?.examples ?? 0;
  const [into, from] = [label, other].sort((a, b) => examples(b) - examples(a));
  const no = () => {
    saveSetting(`different:${memory.name}`, [...differentPairs(), pairKey(label, other)]);
    draw();
  };
  const names = { label: make("bdi", {}, label), other: make("bdi", {}, other) };
  return question(
    [label, other],
    sayNodes("questions.alike", names),
    button(say("questions.merge"), () => merge(from, into), {
      class: "small",
      title: say("questions.both", { into }),
    }),
    button(say("no"), no, { class: "small" }),
  );
}

/**
 * @param {string[]} labels
 * @param {(string | Node)[]} words
 * @param {HTMLButtonElement[]} buttons
 */
function question(labels, words, ...buttons) {
  const images = labels.map((label) => exampleImage(label, findThing(label)?.shown[0]));
  const pair = make("span", { class: "thumbs", "aria-hidden": "true" }, images);
  return make("li", { class: "row question" }, pair, make("p", {}, words), buttons);
}
