// The questions it asks: are these two the same, and may I see more of this?

import { get } from "./api.js";
import { merge } from "./editing.js";
import { button, find, make, portrait, recall, remember } from "./dom.js";
import { changes, memory, thing } from "./memory.js";
import { prepare } from "./tray.js";

const MOST = 2; // at a time: more would be a nuisance
const later = new Set(); // asked, and put off until the page is opened again
let advice = { alike: [], more: [] };

export function setUpQuestions() {
  changes.addEventListener("changed", ask);
}

async function ask() {
  if (memory.labels.length === 0) advice = { alike: [], more: [] };
  else advice = await get("/api/advice").catch(() => advice); // no question is worth an error
  draw();
}

function draw() {
  const open = (pair) => thing(pair.label) && thing(pair.other) && !refused().includes(nameOf(pair));
  const alike = advice.alike.filter(open);
  const more = advice.more.filter((one) => thing(one.label) && !later.has(one.label));
  const rows = [...alike.map(alikeRow), ...more.map(moreRow)].slice(0, MOST);
  find("question-list").replaceChildren(...rows);
  delete document.documentElement.dataset.questions; // the room kept for them is no longer a guess
  remember("questions", rows.length);
}

/** Two labels that a person has said are two things, in this memory. */
const refused = () => recall(`different:${memory.name}`, []);
const nameOf = (pair) => JSON.stringify([pair.label, pair.other].sort());

function alikeRow(pair) {
  const both = [thing(pair.label), thing(pair.other)].sort((one, other) => other.examples - one.examples);
  const [into, label] = both.map((one) => one.label);
  const no = () => (remember(`different:${memory.name}`, [...refused(), nameOf(pair)]), draw());
  return question(
    [pair.label, pair.other],
    ["These two look alike: ", make("bdi", {}, pair.label), " and ", make("bdi", {}, pair.other), ". The same?"],
    button("Yes, merge", () => merge(label, into), { class: "small", title: `Both are ${into} then` }),
    button("No", no, { class: "small" }),
  );
}

function moreRow({ label, reason }) {
  const notNow = () => (later.add(label), draw());
  return question(
    [label],
    ["Show me more of the ", make("bdi", {}, label), `: ${reason.replace(/\.$/, "")}.`],
    button("Show more", () => prepare(label), { class: "small", "aria-label": `Show more of ${label}` }),
    button("Not now", notNow, { class: "small", "aria-label": `Not now: ${label}` }),
  );
}

function question(labels, words, ...buttons) {
  const faces = labels.map((label) => portrait(label, thing(label)?.shown[0]));
  const pair = make("span", { class: "pair", "aria-hidden": "true" }, faces);
  return make("li", { class: "question" }, pair, make("p", {}, words), buttons);
}
