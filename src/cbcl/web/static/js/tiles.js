// @ts-check
// Draws the tray: a tile for each picture, and progress; offers.js draws what is done to many.

import { find, iconButton, lazyImage, make, setSource } from "./dom.js";
import { restingPlace } from "./hold.js";
import { nameOf } from "./memory.js";
import { drawOffers } from "./offers.js";
import { chosenOf, isKnown, keysOf } from "./tray_state.js";
import { percent, say } from "./words.js";

/** @import { OfferActions } from "./offers.js" */
/** @import { TrayPicture } from "./types.d.ts" */
/** @import { Tray } from "./tray_state.js" */

const MIN_PROGRESS = 9; // pictures, from which on progress is worth showing
const MIN_ORDER_HINT = 4; // pictures, from which on their order is worth a word

/**
 * What one does with pictures, by their keys.
 * @typedef {OfferActions & {
 *   choose: (key: number, yes: boolean) => void,
 *   chooseOnly: (key: number) => void,
 *   discard: (key: number) => void,
 * }} TrayActions
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
  const { pictures } = tray;
  const chosen = chosenOf(tray).length;
  find("tray").classList.toggle("full", pictures.length > 0);
  find("tray-count").textContent = String(pictures.length || "");
  find("tray-empty").hidden = pictures.length > 0;
  find("selection").hidden = pictures.length < 2;
  find("selection-text").textContent = say("tray.selected", { count: chosen });
  find("selection-hint").hidden = pictures.length < MIN_ORDER_HINT || tray.unsorted;
  find("discard").disabled = chosen === 0;
  find("pictures").ariaBusy = String(tray.asking); // guesses may change
  drawProgress(tray);
  drawOffers(tray, actions);
  arrange(tray, actions);
}

/** @param {string} url of a photo, which may be one that this browser cannot draw */
function photoImage(url) {
  const image = lazyImage(url);
  image.addEventListener("error", () => image.classList.add("blank"));
  return image;
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
  const image = photoImage(url);
  const about = { class: "face", title: say("tray.tile", { name }) };
  const face = make("label", { ...about, ondblclick: () => chooseOnly(key) }, box, image);
  const looks = (/** @type {string} */ kind) => ({ class: `icon-button ${kind}` });
  const yes = iconButton(say("answer.yes"), "check", () => accept(label, [key]), looks("yes"));
  const removal = say("tray.remove_one", { name });
  const out = iconButton(removal, "close", () => discard(key), looks("out"));
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
      setSource(image, picture.url);
      box.setAttribute("aria-label", `${name}: ${word} ${number}`.trim());
      guess.textContent = word;
      confidence.textContent = number;
      yes.hidden = !label || isKnown(picture);
      yes.title = say("tray.yes_is", { label });
      yes.setAttribute("aria-label", yes.title);
    },
  };
}

/**
 * Return the guess in words, and how sure.
 * @param {TrayPicture} picture
 */
function guessOf({ answer, skipped }) {
  if (!answer) return [skipped ? say("tray.skipped") : "…", ""];
  if (answer.confidence === null) return [say("tray.new"), ""];
  if (typeof answer.taught === "string") return [nameOf(answer.taught), say("tray.known")];
  return [answer.label ?? say("unknown"), percent(answer.confidence)];
}

/** @param {Tray} tray */
function drawProgress({ asking, progress, pictures }) {
  const running = asking || pictures.some((picture) => picture.skipped);
  const long = running && progress !== null && progress.all >= MIN_PROGRESS;
  find("progress").hidden = !long;
  if (!long) return;
  find("progress-bar").max = progress.all;
  find("progress-bar").value = progress.done;
  find("stop").textContent = say(asking ? "tray.stop" : "tray.go_on");
  find("progress-text").textContent = say("tray.progress", progress);
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
  (list.contains(focused) ? focused : (beside ?? restingPlace())).focus({ preventScroll: true });
}

/** @param {Element[]} nodes @param {Element} list */
const sameOrder = (nodes, list) =>
  nodes.length === list.children.length && nodes.every((node, at) => node === list.children[at]);
