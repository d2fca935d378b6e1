// @ts-check
// The three views, by the part of the address after #, and the keys.

import { openDialog } from "./dialogs.js";
import { find, loadSetting, saveSetting } from "./dom.js";
import { undoLast } from "./editing.js";
import { drawHistory } from "./history.js";
import { drawScores } from "./scores.js";
import { pressUndo } from "./toasts.js";

const VIEWS = { teach: () => {}, scores: drawScores, history: drawHistory };
const FIELDS = "input:not([type=checkbox]):not([type=file]), textarea, select, dialog";

export function setUpViews() {
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault(); // what follows # is the view
    find("view").focus();
  });
  window.addEventListener("hashchange", () => {
    showView();
    window.scrollTo(0, 0);
  });
  showView();
  const keys = find("keys-on");
  keys.checked = loadSetting("keys", true);
  keys.addEventListener("change", () => saveSetting("keys", keys.checked));
  document.addEventListener("keydown", onKey);
}

function showView() {
  const wish = location.hash.slice(1);
  const view = Object.hasOwn(VIEWS, wish) ? /** @type {keyof typeof VIEWS} */ (wish) : "teach";
  for (const name of Object.keys(VIEWS)) {
    find(name).hidden = name !== view;
    if (name === view) find(`nav-${name}`).setAttribute("aria-current", "page");
    else find(`nav-${name}`).removeAttribute("aria-current");
  }
  VIEWS[view]();
}

/** @type {Record<string, () => void>} */
const KEYS = {
  n: () => onTeach(() => find("name").focus()),
  y: () => onTeach(() => find("yes").hidden || find("yes").click()),
  x: () => onTeach(() => find("correction-name").focus()),
  p: () => onTeach(() => find("pick").click()),
  "/": () => onTeach(() => find("filter").focus()),
  "ctrl+z": () => pressUndo() || undoLast(),
  "?": () => openDialog("keys-dialog"),
  1: () => (location.hash = "teach"),
  2: () => (location.hash = "scores"),
  3: () => (location.hash = "history"),
};

/** @param {() => void} work */
function onTeach(work) {
  if (!find("teach").hidden) work();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = event.target instanceof HTMLElement ? event.target : null;
  if (event.key === "Escape" && target?.matches("input")) target.blur();
  const command = event.ctrlKey || event.metaKey ? "ctrl+" : "";
  const work = KEYS[command + event.key.toLowerCase()];
  const ignored = event.altKey || event.repeat || target?.closest(FIELDS);
  if (!work || ignored || loadSetting("keys", true) === false) return;
  event.preventDefault();
  work();
}
