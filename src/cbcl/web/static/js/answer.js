// Shows an answer: the label, how sure, what else, why; and takes "yes" and "no, it's a …", which teach that picture.

import { sayUndoable } from "./editing.js";
import { offer } from "./combobox.js";
import { button, count, fill, find, make, percent, portrait, recall, remember } from "./dom.js";
import { changes, memory, names, reached } from "./memory.js";
import { teach } from "./teaching.js";
import { attempt, warn } from "./toasts.js";

const RUNNERS = 3;
const CHIPS = 5;
const FEW = 6; // labels that can all be chips; of more, only those that were guessed
const REASONS = 4;
const SETTLED = 3; // answers in a row that say the same
const LOOK = 1500; // milliseconds in which what was taught is seen to work

/** Tells of "hold" and "release", and of "taught" (detail: the picture). */
export const panel = new EventTarget();

let current = null; // {answer, picture} on the screen
let held = false;
let busy = false;
let restless = 0; // until when a pointer that rests on the choices does not hold the answer
let said = { kind: "", label: "", times: 0 };

export function setUpAnswer() {
  find("runners").append(...Array.from({ length: RUNNERS }, runner));
  find("chips").append(...Array.from({ length: CHIPS }, chip));
  showRunners({ ranking: [] });
  reserve(recall("things", 0));
  find("yes").addEventListener("click", () => current?.answer.label && correct(current.answer.label));
  find("correction-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = find("correction-name").value.trim();
    if (name) correct(name);
    else find("correction-name").focus();
  });
  offer(find("correction-name"), likely);
  changes.addEventListener("changed", () => {
    reserve(memory.labels.length);
    if (current && !held) showChoices(kindOf(current.answer), current.answer);
  });
  holdWhileChoosing(find("correction"));
}

/** Keep room for as much as there can be to say, from the first moment on: nothing jumps when it is said. */
function reserve(things) {
  remember("things", things);
  find("answer").classList.toggle("roomy", things > 0);
  [...find("runners").children].forEach((row, at) => (row.hidden = at + 1 >= things));
}

/** Nobody can hit what moves: the answer stands still while it is being judged. */
function holdWhileChoosing(area) {
  const near = () => performance.now() > restless && setHeld(true);
  for (const name of ["pointerenter", "pointermove"]) area.addEventListener(name, near);
  for (const name of ["pointerdown", "focusin", "keydown"]) area.addEventListener(name, () => setHeld(true));
  area.addEventListener("pointerleave", () => area.contains(document.activeElement) || setHeld(false));
  area.addEventListener("focusout", (event) => {
    if (!area.contains(event.relatedTarget) && !area.matches(":hover")) setHeld(false);
  });
}

export const isHeld = () => held;

function setHeld(yes) {
  if (held === yes || (yes && !current)) return;
  held = yes;
  if (yes) showChoices(kindOf(current.answer), current.answer); // what can be clicked is about what is held
  panel.dispatchEvent(new CustomEvent(yes ? "hold" : "release", { detail: current?.picture }));
}

/** Show an answer about a picture; while one is held, only that one is shown. */
export function show(answer, picture) {
  if (held) return;
  const kind = kindOf(answer);
  const settled = settle(kind, answer, picture);
  const first = current === null || kindOf(current.answer) === "nothing";
  current = { answer, picture };
  find("answer").dataset.kind = kind;
  find("answer-label").textContent = headline(kind, answer);
  showSubject(picture);
  showSureness(kind, answer);
  showRunners(answer);
  showReasons(answer);
  find("correction").hidden = kind === "nothing";
  if (settled || first) showChoices(kind, answer);
  if (settled) find("answer-said").textContent = spoken(kind, answer);
}

/** Nothing is looked at: say why, in a few words. */
export function clear(words) {
  setHeld(false);
  current = null;
  said = { kind: "", label: "", times: 0 };
  find("answer").dataset.kind = "waiting";
  find("answer-label").textContent = words;
  for (const id of ["answer-percent", "answer-sure"]) find(id).textContent = "";
  find("answer-note").textContent = "";
  find("answer-said").textContent = "";
  showSubject(null);
  for (const id of ["correction", "why"]) find(id).hidden = true;
  fill(find("answer-bar"), 0);
  showRunners({ ranking: [] });
}

/** A picture that is not in the finder is shown beside what is said of it. */
function showSubject(picture) {
  const subject = find("subject");
  subject.hidden = !picture?.url;
  if (picture?.url && subject.getAttribute("src") !== picture.url) subject.src = picture.url;
}

export const pictureShown = () => current?.picture ?? null;

const kindOf = (answer) => (answer.confidence === null ? "nothing" : answer.label === null ? "unknown" : "known");

const headline = (kind, answer) =>
  ({ nothing: "I know nothing yet: show me something", unknown: "I don’t know this", known: answer.label })[kind];

const spoken = (kind, answer) =>
  kind === "known" ? `${answer.label}, ${percent(answer.confidence)} sure` : headline(kind, answer);

/** Whether the answer has just become steady, and is not the one that was steady before. */
function settle(kind, answer, picture) {
  const same = said.kind === kind && said.label === answer.label;
  said = { kind, label: answer.label, times: same ? said.times + 1 : 1 };
  return said.times === (picture.live ? SETTLED : 1);
}

function showSureness(kind, answer) {
  const sure = answer.confidence ?? 0;
  find("answer-percent").textContent = kind === "nothing" ? "" : percent(sure);
  find("answer-sure").textContent = kind === "nothing" ? "" : "sure";
  find("answer-note").textContent = kind === "nothing" ? "Snap it three times, then type its name." : "";
  const bar = find("answer-bar");
  fill(bar, sure);
  bar.setAttribute("aria-valuenow", Math.round(sure * 100));
  bar.setAttribute("aria-valuetext", spoken(kind, answer));
}

function runner() {
  return make(
    "li",
    {},
    make("span", { class: "runner-name", dir: "auto" }),
    make("span", { class: "bar thin" }, make("span")),
    make("span", { class: "runner-percent" }),
  );
}

const runnersUp = (answer) => answer.ranking.filter((guess) => guess.label !== answer.label);

function showRunners(answer) {
  const others = runnersUp(answer);
  [...find("runners").children].forEach((row, at) => {
    const guess = others[at];
    row.classList.toggle("vacant", !guess);
    row.setAttribute("aria-hidden", String(!guess));
    row.children[0].textContent = guess?.label ?? "";
    row.children[2].textContent = guess ? percent(guess.confidence) : "";
    fill(row.children[1], guess?.confidence ?? 0);
  });
}

const chip = () =>
  button("", (event) => correct(event.target.dataset.label), { class: "chip", dir: "auto", hidden: true });

/** Known labels, the runners-up first, without the one that was said. */
function likely() {
  const first = current?.answer.ranking.map((guess) => guess.label) ?? [];
  return [...new Set([...first, ...names()])].filter((label) => label !== current?.answer.label);
}

function showChoices(kind, answer) {
  find("yes").hidden = kind !== "known";
  find("yes").textContent = kind === "known" ? `Yes, ${answer.label}` : "Yes";
  find("correction-words").textContent = kind === "known" ? "No, it’s a" : "It’s a";
  find("correction-name").placeholder = likely().length ? "something else" : "type its name";
  find("correction-name").setAttribute("aria-label", kind === "known" ? "No, it’s a…" : "It’s a…");
  const labels = names().length > FEW ? likely().slice(0, runnersUp(answer).length) : likely();
  [...find("chips").children].forEach((node, at) => {
    node.hidden = at >= labels.length;
    node.dataset.label = labels[at] ?? "";
    node.textContent = labels[at] ?? "";
  });
}

function showReasons(answer) {
  const list = find("reasons");
  const reasons = answer.evidence.slice(0, REASONS);
  find("why").hidden = reasons.length === 0;
  find("why-title").textContent = answer.label === null ? "The nearest I know" : "Why";
  const key = JSON.stringify(reasons.map((reason) => [reason.label, reason.examples, percent(reason.share)]));
  if (list.dataset.key === key) return; // the same pictures again need no new nodes
  list.dataset.key = key;
  list.replaceChildren(...reasons.map(reasonRow));
}

function reasonRow(reason) {
  const shown = reason.examples.slice(0, 3);
  const faces = shown.length ? shown : [null];
  return make(
    "li",
    {},
    make("span", { class: "voters", "aria-hidden": "true" }, faces.map((example) => portrait(reason.label, example))),
    make(
      "span",
      { class: "vote" },
      make("strong", {}, percent(reason.share)),
      ` of the vote: ${whose(shown.length, reason.pictures)} of `,
      make("bdi", {}, reason.label),
    ),
  );
}

/** "these 3", "3 of 12", or how many where none can be shown. */
function whose(shown, all) {
  if (shown === 0) return count(all, "example");
  if (shown < all) return `${shown} of ${all}`;
  return shown === 1 ? "this one" : `these ${shown}`;
}

/** Teach the picture that was answered. */
async function correct(label) {
  if (!current || busy) return;
  busy = true;
  const { picture } = current;
  find("answer").classList.add("learning");
  const told = await attempt(() => teach(label, [picture]));
  find("answer").classList.remove("learning");
  busy = false;
  if (told) taught(label, picture, told);
}

function taught(label, picture, told) {
  told.problems.forEach((problem) => warn(problem.message));
  if (told.learned) sayUndoable(`Learned one more example of ${label}.`, told.revision, { steps: told.steps });
  reached(told.revision);
  find("correction-name").value = "";
  if (document.activeElement === find("correction-name")) document.activeElement.blur();
  said.times = 0;
  restless = performance.now() + LOOK;
  setHeld(false);
  panel.dispatchEvent(new CustomEvent("taught", { detail: picture }));
}
