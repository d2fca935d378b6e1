// @ts-check
// The scores view: how many hidden examples are known again, and the confusion matrix.

import { get } from "./api.js";
import { button, exampleImage, find, make } from "./dom.js";
import { memoryEvents } from "./memory.js";
import { openPhotos } from "./photos.js";
import { attempt } from "./toasts.js";
import { drawUnknown, setUpUnknown } from "./unknown.js";
import { percent, say, sayNodes } from "./words.js";

/** @import { Child } from "./dom.js" */
/** @import { Miss, Scores } from "./types.d.ts" */

const MAX_MATRIX_LABELS = 30; // that can still be read
const MAX_PAIRS = 20;
const MAX_MISSES = 60;

/** @type {number | null} */
let revision = null; // of the scores on the screen

export function setUpScores() {
  setUpUnknown();
  memoryEvents.addEventListener("opened", () => (revision = null));
  memoryEvents.addEventListener("changed", () => find("scores").hidden || drawScores());
}

export async function drawScores() {
  drawUnknown();
  const body = find("scores-body");
  const about = { class: "quiet working", role: "status" };
  const wait = make("p", about, say("scores.wait"));
  if (revision === null) body.replaceChildren(wait);
  body.setAttribute("aria-busy", "true");
  const scores = await attempt(() => get("/api/scores"));
  body.removeAttribute("aria-busy");
  if (scores && scores.revision === revision) return;
  revision = scores?.revision ?? null;
  body.replaceChildren(...partsOf(scores));
  find("scores-misses").replaceChildren(...misses(scores?.wrong ?? []));
}

/** @param {Scores | undefined} scores */
function partsOf(scores) {
  if (!scores) return [make("p", { class: "note" }, say("scores.none"))];
  if (scores.problem) return [make("p", { class: "note" }, scores.problem)];
  const many = scores.labels.length > MAX_MATRIX_LABELS;
  const confusion = many ? confusedPairs(scores) : matrixOf(scores);
  return [totals(scores), confusion];
}

/** @param {Scores} scores */
function totals({ asked, right, unknown }) {
  return make(
    "dl",
    { class: "figures" },
    figure(say("scores.tested"), asked),
    figure(say("scores.right"), right, asked),
    figure(say("scores.wrong"), asked - right - unknown, asked),
    figure(say("scores.unknown"), unknown, asked),
  );
}

/** @param {string} words @param {number} number */
export function figure(words, number, all = 0) {
  const share = all ? make("span", { class: "quiet" }, ` ${percent(number / all)}`) : null;
  const value = make("dd", { class: "digits" }, String(number), share);
  return make("div", { class: "panel figure" }, make("dt", {}, words), value);
}

/** @param {Scores} scores */
function matrixOf({ labels, matrix }) {
  const columns = [...labels, say("unknown")];
  const heads = columns.map((name) => {
    const text = make("span", { class: "clip", dir: "auto", title: name }, name);
    return make("th", { class: "clip", scope: "col" }, text);
  });
  const head = make("tr", {}, make("td", { class: "corner" }, say("scores.corner")), heads);
  const rows = matrix.map((numbers, index) => matrixRow(numbers, index, columns));
  const caption = say("scores.matrix_caption");
  const table = tableOf("matrix", caption, head, rows);
  return section(say("scores.matrix"), scrollBox(say("scores.matrix_label"), table));
}

/** @param {number[]} numbers @param {number} index @param {string[]} columns */
function matrixRow(numbers, index, columns) {
  const label = columns[index];
  const largest = Math.max(1, ...numbers);
  const cells = numbers.map((number, column) => {
    const kind = number === 0 ? "zero" : index === column ? "hit" : "miss";
    const title = say("scores.cell", { label, said: columns[column], number });
    const cell = make("td", { class: kind, title }, String(number));
    const share = Math.round(12 + (28 * number) / largest);
    if (number) cell.style.setProperty("--share", `${share}%`);
    return cell;
  });
  // A single example is only learned.
  const untested = ` ${say("scores.untested")}`;
  const idle = numbers.some(Boolean) ? null : make("span", { class: "quiet" }, untested);
  const about = { class: "clip", scope: "row", dir: "auto", title: label };
  return make("tr", {}, make("th", about, label, idle), cells);
}

/**
 * List what is confused most, where there are too many labels for a matrix.
 * @param {Scores} scores
 */
function confusedPairs({ labels, matrix }) {
  const pairs = [];
  for (const [row, numbers] of matrix.entries()) {
    for (const [column, number] of numbers.entries()) {
      const said = labels[column] ?? say("unknown");
      if (number && row !== column) pairs.push({ number, label: labels[row], said });
    }
  }
  pairs.sort((a, b) => b.number - a.number);
  const title = say("scores.pairs", { count: labels.length });
  if (!pairs.length) return section(title, make("p", {}, say("scores.no_pairs")));
  const names = ["scores.it_is", "scores.i_say", "scores.times"].map((key) =>
    make("th", { scope: "col" }, say(key)),
  );
  const rows = pairs.slice(0, MAX_PAIRS).map(pairRow);
  const table = tableOf("pairs", say("scores.pairs_label"), make("tr", {}, names), rows);
  return section(title, scrollBox(say("scores.pairs_label"), table));
}

/** @param {{ label: string, said: string, number: number }} pair */
function pairRow({ label, said, number }) {
  return make(
    "tr",
    {},
    make("th", { scope: "row", dir: "auto" }, label),
    make("td", { dir: "auto" }, said),
    make("td", { class: "number" }, String(number)),
  );
}

/** @param {Miss[]} wrong */
function misses(wrong) {
  if (!wrong.length) return [];
  const rest = wrong.length - MAX_MISSES;
  const more = rest > 0 && make("p", { class: "quiet" }, say("scores.more", { count: rest }));
  const items = wrong.slice(0, MAX_MISSES).map(missItem);
  return [section(say("scores.misses"), make("ul", { class: "misses" }, items), more)];
}

/** @param {Miss} miss */
function missItem({ example, label, answer }) {
  const unknown = make("em", {}, say("answer.unknown"));
  const said = answer === null ? unknown : make("strong", { dir: "auto" }, answer);
  const truth = make("strong", { dir: "auto" }, label);
  const words = make("span", {}, sayNodes("scores.miss", { truth, said }));
  const open = { class: "miss-photos", title: say("things.which", { label }) };
  const parts = [exampleImage(label, example), words];
  return make("li", {}, button(parts, () => openPhotos(label), open));
}

/** @param {string} title @param {Child[]} content */
export const section = (title, ...content) => make("section", {}, make("h3", {}, title), content);

/**
 * Make a box in which what is too wide or too high scrolls, with the keyboard, too.
 * @param {string} name
 * @param {HTMLTableElement} table
 */
export function scrollBox(name, table) {
  const about = { class: "panel scroll", tabindex: "0", role: "region", "aria-label": name };
  return make("div", about, table);
}

/**
 * @param {string} kind
 * @param {string} caption
 * @param {HTMLTableRowElement} head
 * @param {HTMLTableRowElement[]} rows
 */
export function tableOf(kind, caption, head, rows) {
  const title = make("caption", { class: "unseen" }, caption);
  const parts = [title, make("thead", {}, head), make("tbody", {}, rows)];
  return make("table", { class: `digits ${kind}` }, parts);
}
