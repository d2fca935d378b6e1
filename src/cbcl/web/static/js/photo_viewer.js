// @ts-check
// One photo of a thing, enlarged: arrows lead to the others, Escape back.

import { openDialog } from "./dialogs.js";
import { find, thumbnailUrl } from "./dom.js";
import { removeExamples } from "./editing.js";
import { nameOf } from "./memory.js";
import { openMove } from "./moving.js";
import { say } from "./words.js";

/**
 * A photo: its number and label, what is to be said of it, and whether it is selected.
 * @typedef {{
 *   example: number, label: string, note: string, chosen: boolean, choose: (yes: boolean) => void,
 * }} Photo
 */

/** @type {Photo[]} */
let photos = [];
let place = 0; // of the one on the screen

export function setUpViewer() {
  const dialog = find("viewer-dialog");
  dialog.addEventListener("close", () => (photos = []));
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const backwards = document.dir === "rtl" && event.key.match("Left|Right");
    go(backwards ? -step : step);
  });
  find("viewer-back").addEventListener("click", () => go(-1));
  find("viewer-on").addEventListener("click", () => go(1));
  find("viewer-select").addEventListener("change", () => {
    const { checked } = find("viewer-select");
    photos[place].choose(checked);
    photos[place] = { ...photos[place], chosen: checked };
  });
  find("viewer-remove").addEventListener("click", () => {
    removeExamples([photos[place].example], nameOf(photos[place].label));
  });
  find("viewer-move").addEventListener("click", () => {
    openMove([photos[place].example], photos[place].label);
  });
}

/** @param {number} example @param {Photo[]} all */
export function openViewer(example, all) {
  photos = all;
  place = all.findIndex((photo) => photo.example === example);
  draw();
  openDialog("viewer-dialog");
  find("viewer-on").focus();
}

/**
 * Go on with the photos that there are now: after one was removed, at the next.
 * @param {Photo[]} all
 */
export function drawViewer(all) {
  if (!photos.length) return;
  const { example } = photos[place];
  const still = all.findIndex((photo) => photo.example === example);
  photos = all;
  place = still < 0 ? Math.min(place, all.length - 1) : still;
  if (!photos.length) find("viewer-dialog").close();
  else draw();
}

/** @param {number} step */
function go(step) {
  place = (place + step + photos.length) % photos.length;
  draw();
}

function draw() {
  const { example, label, note, chosen } = photos[place];
  const count = { number: place + 1, all: photos.length, label: nameOf(label) };
  find("viewer-title").textContent = say("viewer.title", count);
  find("viewer-image").src = thumbnailUrl(example);
  const which = { number: String(example), label: nameOf(label) };
  find("viewer-image").alt = say("examples.photo", which);
  find("viewer-note").textContent = note;
  find("viewer-select").checked = chosen;
  for (const id of ["viewer-back", "viewer-on"]) find(id).hidden = photos.length < 2;
}
