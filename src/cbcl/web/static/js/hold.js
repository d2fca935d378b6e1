// @ts-check
// Holds the answer while somebody chooses: by a pointer on the choices, or by the keyboard there.

import { find } from "./dom.js";

/** @import { HoldReason } from "./answer_state.js" */

const REST_MS = 1500; // after teaching, in which a resting pointer holds nothing
const AFTER_TOUCH_MS = 3000; // in which what was touched or swiped can be touched again

let restUntil = 0; // by performance.now()
/** @type {HTMLElement | null} */
let cameFrom = null; // what had the focus before it came to the choices

/**
 * Hold the answer while a pointer is on the choices, or the keyboard has gone there.
 * A pointer's hold ends when it leaves, whatever it has clicked on: that has the focus, but nobody
 * is there any more.
 * @param {HTMLElement} area
 * @param {(reason: HoldReason, on: boolean) => void} hold
 */
export function holdWhileChoosing(area, hold) {
  const isInside = (/** @type {EventTarget | null} */ node) =>
    node instanceof Node && area.contains(node);
  /** @type {number | undefined} */
  let timer;
  const point = (/** @type {boolean} */ on) => {
    clearTimeout(timer);
    hold("pointer", on);
  };
  for (const name of ["pointerenter", "pointermove"]) {
    area.addEventListener(name, () => performance.now() > restUntil && point(true));
  }
  area.addEventListener("pointerdown", () => point(true));
  area.addEventListener("pointerleave", (event) => {
    clearTimeout(timer);
    restUntil = 0; // who comes back means it
    if (event.pointerType !== "touch") point(false);
    else timer = setTimeout(() => point(false), AFTER_TOUCH_MS);
  });
  area.addEventListener("focusin", (event) => {
    if (!isInside(event.relatedTarget)) {
      cameFrom = event.relatedTarget instanceof HTMLElement ? event.relatedTarget : null;
    }
    if (isByKeyboard(event.target)) hold("keyboard", true);
  });
  area.addEventListener("keydown", () => hold("keyboard", true));
  area.addEventListener("focusout", (event) => {
    if (!isInside(event.relatedTarget)) hold("keyboard", false);
  });
}

/** @param {EventTarget | null} node */
const isByKeyboard = (node) => node instanceof Element && node.matches(":focus-visible");

/**
 * After a choice, give the focus back: by keyboard to the snap button, or without a camera to where
 * it was, else to nothing; a pointer that still rests on the choices holds nothing for a moment.
 * @param {HTMLElement} area
 */
export function giveFocusBack(area) {
  restUntil = performance.now() + REST_MS;
  const focused = document.activeElement;
  if (!(focused instanceof HTMLElement) || !area.contains(focused)) return;
  if (!isByKeyboard(focused)) focused.blur();
  else [find("snap"), cameFrom].find((node) => node?.checkVisibility())?.focus();
}

/** Where the focus goes when what had it is gone: in the name field it would hold the answer. */
export const restingPlace = () => (find("snap").hidden ? find("name") : find("snap"));
