// The history view: every step, the latest first, and the way back.

import { get } from "./api.js";
import { undoLast } from "./editing.js";
import { find, make } from "./dom.js";
import { changes } from "./memory.js";
import { attempt } from "./toasts.js";

const MOST = 300;

export function setUpHistory() {
  find("undo").addEventListener("click", () => undoLast());
  changes.addEventListener("changed", () => find("history").hidden || drawHistory());
}

export async function drawHistory() {
  const told = await attempt(() => get("/api/history"));
  if (!told) return;
  const steps = [...told.steps].sort((one, other) => other.step - one.step);
  const next = steps.find((step) => step.next);
  find("undo").disabled = !next;
  find("undo-text").textContent = next ? `Undo: ${next.action} ${next.text}` : "Nothing to undo";
  find("steps").replaceChildren(...steps.slice(0, MOST).map(row));
  if (!steps.length) find("steps").append(make("li", { class: "quiet" }, "Nothing has happened yet."));
}

function row(step) {
  const when = new Date(step.time);
  const time = make("time", { class: "quiet", datetime: step.time }, when.toLocaleString());
  return make(
    "li",
    { class: step.undone ? "undone" : null, value: step.step },
    make("span", { class: "action" }, step.action),
    make("span", { class: "what", dir: "auto" }, step.text),
    step.undone ? make("span", { class: "mark" }, "undone") : null,
    step.next ? make("span", { class: "mark next" }, "next to undo") : null,
    time,
  );
}
