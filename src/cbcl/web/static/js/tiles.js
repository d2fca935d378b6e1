// @ts-check
// Draws the tray: a tile for each picture, groups of sure guesses, progress, and problems.

import { button, count, find, icon, iconButton, lazyImage, make, percent } from "./dom.js";
import { chosenOf, groupsOf, keysOf } from "./tray_state.js";

/** @import { Problem, TrayPicture } from "./types.d.ts" */
/** @import { Tray } from "./tray_state.js" */

const MIN_PROGRESS = 9; // pictures, from which on progress is worth showing
const MIN_ORDER_HINT = 4; // pictures, from which on their order is worth a word

/**
 * What one does with pictures, by their keys.
 * @typedef {object} TrayActions
 * @property {(key: number, yes: boolean) => void} choose
 * @property {(key: number) => void} chooseOnly
 * @property {(key: number) => void} discard
 * @property {(label: string, keys: number[]) => void} accept
 * @property {(problem: Problem) => void} dismiss
 */

/**
 * @typedef {object} Tile
 * @property {HTMLElement} node
 * @property {(picture: TrayPicture, learning: boolean) => void} draw
 */

/** @type {Map<number, Tile>} */
const tiles = new Map(); // by the pictures' keys

/** @param {Tray} tray @param {TrayActions} actions */
export function drawTray(tray, actions) {
  const { pictures, problems } = tray;
  const chosen = chosenOf(tray).length;
  const busy = tray.learning.length > 0;
  find("tray").classList.toggle("full", pictures.length > 0);
  find("tray-count").textContent = String(pictures.length || "");
  find("tray-empty").hidden = pictures.length > 0;
  find("selection").hidden = pictures.length < 2;
  find("selection-text").textContent = `${chosen} of ${pictures.length} chosen`;
  find("selection-hint").hidden = pictures.length < MIN_ORDER_HINT || tray.unsorted;
  find("discard").disabled = chosen === 0;
  drawButton(tray.learning.length, chosen);
  drawProgress(tray);
  const groups = groupsOf(tray).map(([label, alike]) => groupRow(label, alike, actions, busy));
  find("groups").replaceChildren(...groups);
  find("problems").replaceChildren(...problems.map((problem) => problemRow(problem, actions)));
  arrange(tray, actions);
}

/** @param {TrayPicture} picture @param {TrayActions} actions @returns {Tile} */
function makeTile({ key, name, url }, { choose, chooseOnly, discard, accept }) {
  let label = "";
  const box = make("input", { type: "checkbox", onchange: () => choose(key, box.checked) });
  box.addEventListener("keydown", (event) => {
    const action = { Enter: chooseOnly, Delete: discard, Backspace: discard }[event.key];
    if (!action) return;
    event.preventDefault();
    action(key);
  });
  const image = lazyImage(url);
  image.addEventListener("error", () => image.classList.add("blank"), { once: true });
  const about = { class: "face", title: `${name} (double click: only this one)` };
  const face = make("label", { ...about, ondblclick: () => chooseOnly(key) }, box, image);
  const yes = iconButton("Yes", "check", () => accept(label, [key]), { class: "icon-button yes" });
  const out = iconButton(`Take out ${name}`, "close", () => discard(key), {
    class: "icon-button out",
  });
  const guess = make("span", { class: "guess clip", dir: "auto" });
  const confidence = make("span", { class: "sure digits" });
  const words = make("span", { class: "words" }, guess, confidence);
  const caption = make("div", { class: "caption" }, words, yes);
  const node = make("li", { class: "tile" }, face, out, caption);
  return {
    node,
    draw(picture, learning) {
      label = picture.answer?.label ?? "";
      const [word, number] = guessOf(picture);
      node.classList.toggle("chosen", picture.chosen);
      node.classList.toggle("learning", learning);
      node.classList.toggle("unknown", picture.answer?.label === null);
      box.checked = picture.chosen;
      box.setAttribute("aria-label", `${name}: ${word} ${number}`.trim());
      guess.textContent = word;
      confidence.textContent = number;
      yes.hidden = !label;
      yes.title = `Yes, this is ${label}`;
      yes.setAttribute("aria-label", yes.title);
    },
  };
}

/**
 * Return the guess in words, and how sure.
 * @param {TrayPicture} picture
 */
function guessOf({ answer, skipped }) {
  if (!answer) return [skipped ? "not asked" : "…", ""];
  if (answer.confidence === null) return ["new to me", ""];
  return [answer.label ?? "unknown", percent(answer.confidence)];
}

/** @param {number} learning @param {number} chosen */
function drawButton(learning, chosen) {
  const teach = find("teach-button");
  teach.disabled = learning > 0;
  teach.classList.toggle("working", learning > 0);
  if (learning) teach.textContent = `Learning ${learning}…`;
  else teach.textContent = chosen ? `Teach ${count(chosen, "picture")}` : "Teach";
}

/** @param {Tray} tray */
function drawProgress({ asking, progress, pictures }) {
  const running = asking || pictures.some((picture) => picture.skipped);
  const long = running && progress !== null && progress.all >= MIN_PROGRESS;
  find("progress").hidden = !long;
  if (!long) return;
  find("progress-bar").max = progress.all;
  find("progress-bar").value = progress.done;
  find("stop").textContent = asking ? "Stop" : "Go on";
  find("progress-text").textContent = `${progress.done} of ${progress.all} looked at`;
}

/**
 * @param {string} label
 * @param {TrayPicture[]} pictures
 * @param {TrayActions} actions
 * @param {boolean} busy
 */
function groupRow(label, pictures, { accept }, busy) {
  const number = make("strong", {}, String(pictures.length));
  const words = make("span", {}, number, " look like ", make("bdi", {}, label));
  const name = `Yes, all ${pictures.length} are ${label}`;
  const attributes = { class: "small", "aria-label": name, disabled: busy };
  const yes = () => accept(label, keysOf(pictures));
  return make("li", { class: "row" }, words, button([icon("check"), "Yes, all"], yes, attributes));
}

/** @param {Problem} problem @param {TrayActions} actions */
function problemRow(problem, { dismiss }) {
  const named = problem.message.includes(problem.picture);
  const words = named ? problem.message : `${problem.picture}: ${problem.message}`;
  const close = iconButton("Dismiss", "close", () => dismiss(problem));
  return make("li", { class: "row" }, make("span", { dir: "auto" }, words), close);
}

/**
 * Put the tiles in their order, moving only if it changed: what has the focus keeps it.
 * @param {Tray} tray
 * @param {TrayActions} actions
 */
function arrange({ pictures, learning }, actions) {
  const nodes = pictures.map((picture) => {
    const tile = tiles.get(picture.key) ?? makeTile(picture, actions);
    tiles.set(picture.key, tile);
    tile.draw(picture, learning.includes(picture.key));
    return tile.node;
  });
  const list = find("pictures");
  if (sameOrder(nodes, list)) return;
  const focused = /** @type {HTMLElement | null} */ (list.querySelector(":focus"));
  const place = focused ? [...list.children].findIndex((node) => node.contains(focused)) : -1;
  list.replaceChildren(...nodes);
  const here = new Set(keysOf(pictures));
  for (const key of tiles.keys()) if (!here.has(key)) tiles.delete(key);
  if (!focused) return;
  const beside = list.children[Math.min(place, nodes.length - 1)]?.querySelector("input");
  (list.contains(focused) ? focused : (beside ?? find("name"))).focus({ preventScroll: true });
}

/** @param {Element[]} nodes @param {Element} list */
const sameOrder = (nodes, list) =>
  nodes.length === list.children.length && nodes.every((node, at) => node === list.children[at]);
