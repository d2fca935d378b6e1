// @ts-check
// The history view: every step, the latest first, and the undo.

import { get } from "./api.js";
import { find, make } from "./dom.js";
import { undoLast } from "./editing.js";
import { memoryEvents } from "./memory.js";
import { attempt } from "./toasts.js";
import { say } from "./words.js";

/** @import { Step } from "./types.d.ts" */

const MAX_STEPS = 300;

let undoing = false; // until the button says what is next

export function setUpHistory() {
  find("undo").addEventListener("click", undoShown);
  memoryEvents.addEventListener("changed", () => find("history").hidden || drawHistory());
}

/** Undo the step that the button names: a second click meanwhile would be another one's. */
async function undoShown() {
  if (undoing) return;
  undoing = true;
  await undoLast();
  await drawHistory();
  undoing = false;
}

export async function drawHistory() {
  const history = await attempt(() => get("/api/history"));
  if (!history) return;
  const steps = [...history.steps].sort((a, b) => b.step - a.step);
  const next = steps.find((step) => step.next);
  find("undo").disabled = !next;
  find("undo-text").textContent = next
    ? say("history.undo", { action: actionOf(next), text: textOf(next) })
    : say("history.no_undo");
  const rows = steps.slice(0, MAX_STEPS).map(stepRow);
  if (!rows.length) rows.push(make("li", { class: "quiet" }, say("history.empty")));
  find("steps").replaceChildren(...rows);
}

/** @param {{ action: string }} step */
const actionOf = ({ action }) => say(`history.action_${action}`);

/**
 * Write what a step did, in the person's language where it is no name.
 * @param {{ action: string, text: string }} step
 */
function textOf({ action, text }) {
  const [, how = ""] = /^(?:undo )?strangers (\w+)$/.exec(`${action} ${text}`) ?? [];
  if (!how) return text;
  const words = say(`strangers.${how}`);
  return action === "undo" ? `${say("history.action_strangers")} ${words}` : words;
}

/** @param {Step} entry */
function stepRow(entry) {
  const { step, time, undone, next } = entry;
  const written = new Date(time).toLocaleString(document.documentElement.lang);
  return make(
    "li",
    { class: undone ? "undone" : null, value: step },
    make("span", { class: "action" }, actionOf(entry)),
    make("span", { class: "what", dir: "auto" }, textOf(entry)),
    undone ? make("span", { class: "mark" }, say("history.undone")) : null,
    next ? make("span", { class: "mark next" }, say("history.next")) : null,
    make("time", { class: "quiet", datetime: time }, written),
  );
}
