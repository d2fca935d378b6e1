// The scores view: how many examples are known again when they are hidden, and what is taken for what.

import { get } from "./api.js";
import { find, make, percent, portrait } from "./dom.js";
import { changes } from "./memory.js";
import { attempt } from "./toasts.js";

const LARGEST = 30; // labels in a matrix that can still be read
const PAIRS = 20;
const WRONG = 60;

let revision = null; // of the scores on the screen

export function setUpScores() {
  changes.addEventListener("changed", () => find("scores").hidden || drawScores());
}

export async function drawScores() {
  const body = find("scores-body");
  const wait = make("p", { class: "quiet working", role: "status" }, "Measuring… many things take a while.");
  if (revision === null) body.replaceChildren(wait);
  body.setAttribute("aria-busy", "true");
  const scores = await attempt(() => get("/api/scores"));
  body.removeAttribute("aria-busy");
  if (scores && scores.revision === revision) return;
  revision = scores?.revision ?? null;
  body.replaceChildren(...parts(scores));
}

function parts(scores) {
  if (!scores) return [make("p", { class: "note" }, "There are no scores now.")];
  if (scores.problem) return [make("p", { class: "note" }, scores.problem)];
  const confusion = scores.labels.length > LARGEST ? confusedPairs(scores) : matrix(scores);
  return [figures(scores), confusion, ...wrongOnes(scores.wrong)];
}

function figures({ asked, right, unknown }) {
  return make(
    "dl",
    { class: "figures" },
    figure("asked", asked),
    figure("right", right, asked),
    figure("wrong", asked - right - unknown, asked),
    figure("“I don’t know this”", unknown, asked),
  );
}

function figure(words, number, all) {
  const share = all ? make("span", { class: "quiet" }, ` ${percent(number / all)}`) : null;
  return make("div", { class: "figure" }, make("dt", {}, words), make("dd", {}, String(number), share));
}

function matrix({ labels, matrix: rows }) {
  const columns = [...labels, "unknown"];
  const names = columns.map((name) => make("th", { scope: "col" }, make("span", { dir: "auto", title: name }, name)));
  const head = make("tr", {}, make("td", { class: "corner" }, "it is ↓ · I say →"), names);
  const body = rows.map((row, at) => matrixRow(row, at, columns));
  const table = tableOf("matrix", "What it is, in rows, and what I say, in columns", head, body);
  return section("What is taken for what", box("Confusion matrix", table));
}

function matrixRow(row, at, columns) {
  const label = columns[at];
  const most = Math.max(1, ...row);
  const cells = row.map((number, column) => {
    const kind = number === 0 ? "zero" : at === column ? "hit" : "miss";
    const cell = make("td", { class: kind, title: `${label} taken for ${columns[column]}: ${number}` }, String(number));
    if (number) cell.style.setProperty("--share", `${Math.round(12 + (28 * number) / most)}%`);
    return cell;
  });
  const idle = row.some(Boolean) ? null : make("span", { class: "quiet" }, " not asked"); // a single example is only learned
  return make("tr", {}, make("th", { scope: "row", dir: "auto", title: label }, label, idle), cells);
}

/** For many labels, only what is confused most. */
function confusedPairs({ labels, matrix: rows }) {
  const counts = rows.flatMap((row, at) =>
    row.map((number, column) => ({ number, label: labels[at], said: labels[column] ?? "unknown", right: at === column })),
  );
  const pairs = counts.filter((pair) => pair.number && !pair.right).sort((one, other) => other.number - one.number);
  const title = `What is confused most, among ${labels.length} things`;
  if (!pairs.length) return section(title, make("p", {}, "Nothing is taken for anything else."));
  const head = make("tr", {}, ["It is", "I say", "times"].map((name) => make("th", { scope: "col" }, name)));
  const table = tableOf("pairs", "The pairs confused most", head, pairs.slice(0, PAIRS).map(pairRow));
  return section(title, box("The pairs confused most", table));
}

function pairRow({ label, said, number }) {
  const name = make("th", { scope: "row", dir: "auto" }, label);
  return make("tr", {}, name, make("td", { dir: "auto" }, said), make("td", { class: "number" }, String(number)));
}

function wrongOnes(wrong) {
  if (!wrong.length) return [];
  const more = wrong.length > WRONG && make("p", { class: "quiet" }, `and ${wrong.length - WRONG} more`);
  return [section("Where I was wrong", make("ul", { class: "misses" }, wrong.slice(0, WRONG).map(wrongOne)), more)];
}

function wrongOne({ example, label, answer }) {
  const said = answer === null ? make("em", {}, "I don’t know this") : make("strong", { dir: "auto" }, answer);
  const words = make("span", {}, "It is ", make("strong", { dir: "auto" }, label), ", I say ", said);
  return make("li", {}, portrait(label, example), words);
}

const section = (title, ...content) => make("section", {}, make("h3", {}, title), content);

/** A box in which what is too wide or too high scrolls, with the keyboard, too. */
const box = (name, table) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, table);

function tableOf(kind, caption, head, rows) {
  const title = make("caption", { class: "unseen" }, caption);
  return make("table", { class: kind }, title, make("thead", {}, head), make("tbody", {}, rows));
}
