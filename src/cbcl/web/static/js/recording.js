// @ts-check
// The snap button: a press takes a photo; held, it records, and keeps the frames that differ.

import { find, loadSetting } from "./dom.js";
import {
  ENOUGH_VIEWS, isEnough, NO_RECORDING, THUMBNAIL_SIDE, withFrame,
} from "./recording_state.js";
import { say } from "./words.js";

/** @import { Camera } from "./camera.js" */

const HOLD_MS = 400; // until a press is a hold
const FRAME_MS = 100; // between the frames that are looked at
const LINGER_MS = 4000; // in which it is said what was kept

// Where the space key has another meaning: in fields, and on what was reached with the keyboard.
const FIELDS = "input:not([type=checkbox]), textarea, select, dialog, [popover]";
const FOCUSED = ":is(button, input, a):focus-visible:not(#snap)";

/** @type {Camera} */
let camera;
/** @type {(blob: Blob) => void} */
let take;
let recording = NO_RECORDING;
let pressed = false;
/** @type {number | undefined} */
let timer; // of the next frame
/** @type {number | undefined} */
let lingering; // until the last word is gone

/**
 * Set up the button and the space key; snapped is called for every photo.
 * @param {Camera} theCamera
 * @param {(blob: Blob) => void} snapped
 */
export function setUpSnap(theCamera, snapped) {
  [camera, take] = [theCamera, snapped];
  const button = find("snap");
  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture(event.pointerId); // a hand that slips while the thing is turned
    press();
  });
  for (const name of ["pointerup", "pointercancel"]) button.addEventListener(name, release);
  // A long touch is a hold.
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  // A click that is neither of a pointer nor of the space key comes from assistive technology.
  button.addEventListener("click", (event) => event.detail === 0 && snap());
  document.addEventListener("keydown", onSpaceDown);
  document.addEventListener("keyup", (event) => {
    if (event.code !== "Space" || !pressed) return;
    event.preventDefault();
    release();
  });
  window.addEventListener("blur", release);
  camera.addEventListener("state", release);
}

/** @param {KeyboardEvent} event */
function onSpaceDown(event) {
  const modified = event.ctrlKey || event.altKey || event.metaKey;
  const target = /** @type {Element} */ (event.target);
  if (event.code !== "Space" || modified || target.closest?.(`${FIELDS}, ${FOCUSED}`)) return;
  const off = loadSetting("keys", true) === false && target !== find("snap");
  if (off || !find("snap").checkVisibility()) return; // no camera, another view, or only to look
  event.preventDefault();
  if (!event.repeat) press();
}

function press() {
  release();
  pressed = true;
  recording = NO_RECORDING;
  see();
  snap();
  timer = setTimeout(record, HOLD_MS);
}

/** Look at a frame, and go on until it is released, or there are enough views. */
function record() {
  if (see()) takeFrame();
  showRecording("record.live");
  if (!isEnough(recording)) timer = setTimeout(record, FRAME_MS);
  else finish("record.enough");
}

/** Look at what the camera sees now; true if it is a new view. */
function see() {
  const pixels = camera.pixels(THUMBNAIL_SIDE);
  if (!pixels) return false;
  const before = recording.kept.length;
  recording = withFrame(recording, pixels);
  return recording.kept.length > before;
}

function release() {
  clearTimeout(timer);
  pressed = false;
  if (find("snap").classList.contains("recording")) finish("record.done");
}

/**
 * End the recording, and say for a while what was kept.
 * @param {string} key
 */
function finish(key) {
  showRecording(key);
  find("record-said").textContent = find("record").textContent;
  find("snap").classList.remove("recording");
  lingering = setTimeout(() => (find("record").hidden = true), LINGER_MS);
}

/** @param {string} key */
function showRecording(key) {
  clearTimeout(lingering);
  const { kept, seen } = recording;
  find("snap").classList.add("recording");
  find("ring").style.setProperty("--kept", String(kept.length / ENOUGH_VIEWS));
  find("record").hidden = false;
  find("record").textContent = say(key, { count: kept.length, all: seen });
}

/** Take a photo, whatever it shows. */
function snap() {
  const finder = find("finder");
  takeFrame();
  finder.classList.remove("flash");
  void finder.offsetWidth; // so that the flash starts anew
  finder.classList.add("flash");
}

async function takeFrame() {
  const blob = await camera.frame();
  if (blob) take(blob);
}
