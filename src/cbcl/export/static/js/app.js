// @ts-check
// The app: what is loaded first, then answers about what the camera sees, or about photos.

import { answersShown, drawAnswer, drawWaiting } from "./answer_view.js";
import { Camera } from "./camera.js";
import { find, make, sleep } from "./dom.js";
import { showCamera } from "./finder.js";
import { speak } from "./language.js";
import { openModel } from "./model.js";
import { setUpPhotos } from "./photo_list.js";
import { framePixels } from "./pixels.js";
import { percent, say } from "./words.js";

/** @import { AppDescription, Model } from "./app_types.d.ts" */

const INTERVAL_MS = 100; // from frame to frame, where a device is faster
const IDLE_MS = 250;

/** @returns {Promise<AppDescription>} */
const readDescription = async () => (await fetch("app.json")).json();

async function start() {
  const app = await readDescription();
  await speak(app.languages);
  find("stuck").hidden = true;
  describe(app);
  const offline = keepOffline();
  const model = await openModel(app, (share) => {
    drawWaiting(say("app.loading_share", { share: percent(share) }));
  });
  const camera = new Camera(/** @type {HTMLVideoElement} */ (find("video")));
  const photos = setUpPhotos(model, app);
  showCamera(camera, photos);
  drawWaiting(say("answer.idle"));
  offline.then((kept) => kept && (find("offline").textContent = say("app.offline")));
  runLive(camera, model, app);
}

/** @param {AppDescription} app */
function describe(app) {
  document.title = app.name;
  find("app-name").textContent = app.name;
  find("version").textContent = `cbcl ${app.cbcl}`;
  const button = find("labels-button");
  button.textContent = say("app.knows", { count: app.labels.length });
  button.hidden = false;
  find("label-list").append(...app.labels.map((label) => make("li", { dir: "auto" }, label)));
}

/**
 * Ask about frame after frame, one at a time, none while nobody looks or a photo is shown.
 * @param {Camera} camera
 * @param {Model} model
 * @param {AppDescription} app
 */
async function runLive(camera, model, app) {
  for (;;) {
    const began = performance.now();
    const wanted = camera.ready && !document.hidden && !answersShown.photo;
    if (wanted) {
      const answer = await model.recognize(framePixels(camera.video, app.at_least));
      if (camera.state === "on" && !answersShown.photo) drawAnswer(answer, model);
    }
    await sleep(Math.max(0, (wanted ? INTERVAL_MS : IDLE_MS) - (performance.now() - began)));
  }
}

/** Keep the app on this device, where the browser can; return true if it does. */
async function keepOffline() {
  if (!navigator.serviceWorker) return false;
  try {
    await navigator.serviceWorker.register("service_worker.js", { updateViaCache: "none" });
    await navigator.serviceWorker.ready;
    return true;
  } catch {
    return false; // a private window, or storage that is full: it works online still
  }
}

start().catch((error) => {
  drawWaiting(find("failed").textContent ?? ""); // in English, if there are no words yet
  find("answer-note").textContent = String(error.message ?? error);
});
