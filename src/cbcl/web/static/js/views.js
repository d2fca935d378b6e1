// @ts-check
// The views, by the part of the address after #, and the keys.

import { openDialog } from "./dialogs.js";
import { find, isLookOnly, loadSetting, saveSetting } from "./dom.js";
import { undoByKey } from "./editing.js";
import { drawHistory } from "./history.js";
import { drawMemories } from "./memories.js";
import { nameShown } from "./naming.js";
import { closePresent, openPresent } from "./present.js";
import { drawScores } from "./scores.js";

const VIEWS = {
  teach: () => {},
  present: openPresent,
  test: () => {},
  scores: drawScores,
  history: drawHistory,
  memories: drawMemories,
};
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
  const isThere = Object.hasOwn(VIEWS, wish) && !(wish === "memories" && isLookOnly());
  const view = isThere ? /** @type {keyof typeof VIEWS} */ (wish) : "teach";
  if (view !== "present") closePresent();
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
  y: () => onTeach(() => find("yes").checkVisibility() && find("yes").click()),
  x: () => onTeach(() => nameShown()),
  p: () => onTeach(() => find("pick").click()),
  "/": () => onTeach(() => find("filter").focus()),
  "ctrl+z": undoByKey,
  "?": () => openDialog("keys-dialog"),
  ...Object.fromEntries(
    Object.keys(VIEWS).map((view, index) => [index + 1, () => (location.hash = view)]),
  ),
};

/** @param {() => void} work */
function onTeach(work) {
  if (!find("teach").hidden) work();
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const target = event.target instanceof HTMLElement ? event.target : null;
  if (event.key === "Escape" && target?.matches("input")) target.blur();
  const work = KEYS[commandOf(event)];
  const ignored = event.altKey || event.repeat || target?.closest(FIELDS);
  if (!work || ignored || loadSetting("keys", true) === false) return;
  event.preventDefault();
  work();
}

/** @param {KeyboardEvent} event */
function commandOf({ key, ctrlKey, metaKey, shiftKey }) {
  const plain = key.toLowerCase();
  if (!ctrlKey && !metaKey) return plain;
  return `ctrl+${shiftKey ? "shift+" : ""}${plain}`; // a redo, ctrl+shift+z, is no undo
}
