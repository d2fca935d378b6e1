// @ts-check
// The present view: the answer in letters as large as the screen, for a class or a counter.

import { answerEvents, shownAnswer } from "./answer.js";
import { headlineOf, isDoubtful, kindOf } from "./answer_state.js";
import { find, loadSetting, saveSetting } from "./dom.js";
import { percent, say } from "./words.js";

/** @import { Camera } from "./camera.js" */
/** @import { Answer } from "./types.d.ts" */

const MIN_PX = 20; // below it, words are broken rather than made smaller
const LARGEST = { known: 0.62, other: 0.2 }; // letters' height, as a share of the room for them

/** @type {WakeLockSentinel | null} */
let lock = null; // that keeps the screen on

/** @type {Camera} */
let camera;

/** @param {Camera} theCamera */
export function setUpPresent(theCamera) {
  camera = theCamera;
  answerEvents.addEventListener("steady", () => onSteady(shownAnswer()));
  answerEvents.addEventListener("shown", (event) => {
    if (!(/** @type {CustomEvent} */ (event).detail)) drawWaiting();
  });
  camera.addEventListener("state", drawCamera);
  find("present-camera").addEventListener("click", () => camera.start());
  find("present-leave").addEventListener("click", leavePresent);
  setUpVoice();
  new ResizeObserver(fitLabel).observe(find("present-box"));
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("visibilitychange", keepScreenOn);
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement && isPresenting()) leavePresent(); // by Escape
  });
  drawCamera();
  drawWaiting();
}

const isPresenting = () => find("top").inert;

/** Show the view; all else is out of reach until it is left. */
export function openPresent() {
  setAroundInert(true);
  camera.showIn(find("present-video"));
  if (navigator.userActivation?.isActive) {
    document.documentElement.requestFullscreen?.().catch(() => {}); // it fills the window, then
  }
  keepScreenOn();
  fitLabel();
  find("present-leave").focus();
}

/** Put away what was there for the view, if it was there. */
export function closePresent() {
  if (!isPresenting()) return;
  setAroundInert(false);
  camera.showIn(find("video"));
  if (document.fullscreenElement) document.exitFullscreen().catch(() => {});
  window.speechSynthesis?.cancel();
  lock?.release();
  lock = null;
  find("nav-present").focus();
}

const leavePresent = () => (location.hash = "teach");

/** @param {boolean} on */
function setAroundInert(on) {
  for (const id of ["top", "banner", "view", "foot"]) find(id).inert = on;
}

/**
 * Leave with Escape; the keys of the page beneath mean nothing here.
 * @param {KeyboardEvent} event
 */
function onKey(event) {
  if (!isPresenting()) return;
  event.stopPropagation();
  if (event.key === "Escape") leavePresent();
}

/** Keep the screen on where the browser can; it forgets that whenever the page is hidden. */
async function keepScreenOn() {
  if (!isPresenting() || document.hidden || !navigator.wakeLock) return;
  lock = await navigator.wakeLock.request("screen").catch(() => null);
  if (!isPresenting()) lock?.release();
}

/** @param {Answer | null} answer */
function onSteady(answer) {
  if (!answer) return;
  const known = kindOf(answer) === "known" && !isDoubtful(answer);
  const sure = known ? say("present.sure", { percent: percent(answer.confidence ?? 0) }) : "";
  drawLabel(known ? "known" : "other", headlineOf(answer), sure);
  if (known && isPresenting()) speak(answer.label ?? "");
}

function drawWaiting() {
  drawLabel("other", find("answer-label").textContent ?? "", "");
}

/** @param {"known" | "other"} kind @param {string} text @param {string} sure */
function drawLabel(kind, text, sure) {
  const label = find("present-label");
  find("present-sure").textContent = sure;
  if (label.textContent === text && find("present").dataset.kind === kind) return;
  find("present").dataset.kind = kind;
  label.textContent = text;
  fitLabel();
}

/** Make the letters as large as the room for them allows. */
function fitLabel() {
  const [box, label] = [find("present-box"), find("present-label")];
  if (!box.clientHeight) return;
  const fits = (/** @type {number} */ size) => {
    label.style.fontSize = `${size}px`;
    return label.scrollWidth <= box.clientWidth && label.scrollHeight <= box.clientHeight;
  };
  label.classList.remove("broken");
  if (!fits(MIN_PX)) label.classList.add("broken"); // a long word goes over several lines
  const share = find("present").dataset.kind === "known" ? LARGEST.known : LARGEST.other;
  let [low, high] = [MIN_PX, Math.max(MIN_PX, box.clientHeight * share)];
  while (high - low > 1) {
    const middle = (low + high) / 2;
    [low, high] = fits(middle) ? [middle, high] : [low, middle];
  }
  fits(low);
}

function drawCamera() {
  const { state } = camera;
  find("present-video").hidden = state !== "on";
  find("present-camera").hidden = ["on", "asking", "insecure"].includes(state);
}

function setUpVoice() {
  const button = find("present-voice");
  const set = (/** @type {boolean} */ on) => button.setAttribute("aria-pressed", String(on));
  button.hidden = !("speechSynthesis" in window);
  set(loadSetting("voice", false));
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    set(on);
    saveSetting("voice", on);
    if (on) speak(find("present-label").textContent ?? "");
    else window.speechSynthesis.cancel();
  });
}

/**
 * Say a text aloud, in place of what is being said, if that is wanted.
 * @param {string} text
 */
function speak(text) {
  if (find("present-voice").getAttribute("aria-pressed") !== "true") return;
  const words = new SpeechSynthesisUtterance(text);
  words.lang = document.documentElement.lang;
  window.speechSynthesis.cancel();
  window.speechSynthesis.speak(words);
}
