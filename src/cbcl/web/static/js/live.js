// @ts-check
// Live answers: asks about what the camera sees, one request at a time, none while nobody looks.

import { answerEvents, clearAnswer, isAnswerHeld, showAnswer, shownPicture } from "./answer.js";
import { isOutdated } from "./answer_state.js";
import { connectionEvents, connectionState } from "./connection.js";
import { find, sleep } from "./dom.js";
import { memory, memoryEvents } from "./memory.js";
import { recognizeOne } from "./teaching.js";
import { notifyError } from "./toasts.js";
import { say } from "./words.js";

/** @import { Camera } from "./camera.js" */
/** @import { Picture } from "./types.d.ts" */

const INTERVAL_MS = 250; // from request to request
const MIN_PAUSE_MS = 20;
const ERROR_PAUSE_MS = 2000;
const TIMEOUT_MS = 30_000;
const STILL_DELAY_MS = 250; // a pointer that only passes by leaves the picture alone
const REPORTED_ELSEWHERE = ["gone", "token", "backbone"];

/** @param {Camera} camera */
export async function runLive(camera) {
  camera.addEventListener("state", () => showIdle(camera));
  connectionEvents.addEventListener("changed", () => {
    const working = connectionState.connected && !connectionState.problem;
    if (!working || !shownPicture()) showIdle(camera);
  });
  memoryEvents.addEventListener("opened", () => showIdle(camera));
  showHeldFrame(camera);
  for (;;) {
    const began = performance.now();
    const wait = isWanted(camera) ? await askAboutFrame(camera) : INTERVAL_MS;
    await sleep(Math.max(MIN_PAUSE_MS, wait - (performance.now() - began)));
  }
}

/**
 * Say why there is no answer.
 * @param {Camera} camera
 */
function showIdle(camera) {
  if (!connectionState.connected) clearAnswer(say("answer.waiting"));
  else if (connectionState.problem) clearAnswer(say("answer.blind"));
  else clearAnswer(say(camera.state === "on" ? "answer.looking" : "answer.idle"));
}

/** @param {Camera} camera */
function isWanted(camera) {
  const seen = !find("teach").hidden || !find("present").hidden;
  const looking = !document.hidden && seen && !isAnswerHeld();
  return camera.ready && looking && connectionState.connected && !connectionState.problem;
}

/**
 * Ask about one frame; return the milliseconds to wait before the next.
 * @param {Camera} camera
 */
async function askAboutFrame(camera) {
  const blob = await camera.frame();
  if (!blob) return INTERVAL_MS;
  /** @type {Picture} */
  const picture = { name: "camera.jpg", blob, seen: null, live: true };
  try {
    const answer = await recognizeOne(picture, AbortSignal.timeout(TIMEOUT_MS));
    if (isOutdated(answer, memory.revision)) return 0;
    if (camera.state === "on") showAnswer(answer, { ...picture, seen: answer.seen });
    return INTERVAL_MS;
  } catch (error) {
    if (error.status === 429) return error.retryAfter * 1000;
    const silent = error.name === "TimeoutError" || REPORTED_ELSEWHERE.includes(error.kind);
    if (!silent) notifyError(error.message);
    return ERROR_PAUSE_MS;
  }
}

/**
 * Show in the viewfinder the frame that the held answer is about.
 * @param {Camera} camera
 */
function showHeldFrame(camera) {
  const still = find("still");
  /** @type {number | undefined} */
  let timer;
  answerEvents.addEventListener("hold", (event) => {
    const picture = /** @type {CustomEvent<Picture | null>} */ (event).detail;
    if (!picture?.live || camera.state !== "on") return;
    timer = setTimeout(() => {
      still.src = URL.createObjectURL(picture.blob);
      still.hidden = false;
      find("held").hidden = false;
    }, STILL_DELAY_MS);
  });
  answerEvents.addEventListener("release", () => {
    clearTimeout(timer);
    if (still.src) URL.revokeObjectURL(still.src);
    still.removeAttribute("src");
    still.hidden = true;
    find("held").hidden = true;
  });
}
