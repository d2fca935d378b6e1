// @ts-check
// The history view: every step, the latest first, and the undo.

import { get } from "./api.js";
import { find, make } from "./dom.js";
import { undoLast } from "./editing.js";
import { memoryEvents } from "./memory.js";
import { attempt } from "./toasts.js";

/** @import { Step } from "./types.d.ts" */

const MAX_STEPS = 300;

export function setUpHistory() {
  find("undo").addEventListener("click", () => undoLast());
  memoryEvents.addEventListener("changed", () => find("history").hidden || drawHistory());
}

export async function drawHistory() {
  const history = await attempt(() => get("/api/history"));
  if (!history) return;
  const steps = [...history.steps].sort((a, b) => b.step - a.step);
  const next = steps.find((step) => step.next);
  find("undo").disabled = !next;
  find("undo-text").textContent = next ? `Undo: ${next.action} ${next.text}` : "Nothing to undo";
  const rows = steps.slice(0, MAX_STEPS).map(stepRow);
  if (!rows.length) rows.push(make("li", { class: "quiet" }, "Nothing has happened yet."));
  find("steps").replaceChildren(...rows);
}

/** @param {Step} step */
function stepRow({ step, time, action, text, undone, next }) {
  return make(
    "li",
    { class: undone ? "undone" : null, value: step },
    make("span", { class: "action" }, action),
    make("span", { class: "what", dir: "auto" }, text),
    undone ? make("span", { class: "mark" }, "undone") : null,
    next ? make("span", { class: "mark next" }, "next to undo") : null,
    make("time", { class: "quiet", datetime: time }, new Date(time).toLocaleString()),
  );
}
