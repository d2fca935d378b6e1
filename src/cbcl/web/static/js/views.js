// The three views, by the part of the address after #, and the keys.

import { undoLast } from "./editing.js";
import { open } from "./dialogs.js";
import { find, recall, remember } from "./dom.js";
import { drawHistory } from "./history.js";
import { drawScores } from "./scores.js";
import { pressUndo } from "./toasts.js";

const VIEWS = { teach: () => {}, scores: drawScores, history: drawHistory };

export function setUpViews() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // what follows # is the view
    find("view").focus();
  });
  window.addEventListener("hashchange", () => go(true));
  go(false);
  find("keys-on").checked = recall("keys", true);
  find("keys-on").addEventListener("change", (event) => remember("keys", event.target.checked));
  document.addEventListener("keydown", onKey);
}

function go(moved) {
  const wish = location.hash.slice(1);
  const view = VIEWS[wish] ? wish : "teach";
  for (const name of Object.keys(VIEWS)) {
    find(name).hidden = name !== view;
    if (name === view) find(`nav-${name}`).setAttribute("aria-current", "page");
    else find(`nav-${name}`).removeAttribute("aria-current");
  }
  if (moved) window.scrollTo(0, 0);
  VIEWS[view]();
}

const KEYS = {
  n: () => onTeach(() => find("name").focus()),
  y: () => onTeach(() => find("yes").hidden || find("yes").click()),
  x: () => onTeach(() => find("correction-name").focus()),
  p: () => onTeach(() => find("pick").click()),
  "/": () => onTeach(() => find("filter").focus()),
  "ctrl+z": () => pressUndo() || undoLast(),
  "?": () => open("keys-dialog"),
  1: () => (location.hash = "teach"),
  2: () => (location.hash = "scores"),
  3: () => (location.hash = "history"),
};

function onTeach(work) {
  if (!find("teach").hidden) work();
}

function onKey(event) {
  if (event.key === "Escape" && event.target.matches?.("input")) event.target.blur();
  const typing = event.target.closest?.("input:not([type=checkbox]):not([type=file]), textarea, select, dialog");
  const command = event.ctrlKey || event.metaKey ? "ctrl+" : "";
  const work = KEYS[command + event.key.toLowerCase()];
  if (!work || typing || event.altKey || event.repeat || recall("keys", true) === false) return;
  event.preventDefault();
  work();
}
