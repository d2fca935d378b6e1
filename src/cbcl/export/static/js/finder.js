// @ts-check
// The viewfinder of the app: the camera's state in words, its controls, and the photo shown.

import { drawWaiting } from "./answer_view.js";
import { find, loadSetting, make, saveSetting } from "./dom.js";
import { say } from "./words.js";

/** @import { Camera } from "./camera.js" */
/** @import { PhotoList } from "./photo_list.js" */

/**
 * @param {Camera} camera
 * @param {PhotoList} photos
 */
export function showCamera(camera, photos) {
  camera.addEventListener("state", () => drawState(camera, photos));
  camera.addEventListener("devices", () => listCameras(camera));
  const start = /** @type {HTMLButtonElement} */ (find("camera-start"));
  start.disabled = false;
  start.addEventListener("click", () => camera.start());
  find("camera-stop").addEventListener("click", () => {
    saveSetting("camera-on", false);
    camera.stop();
  });
  find("back").addEventListener("click", () => photos.deselect());
  photos.addEventListener("selected", () => drawState(camera, photos));
  const choice = /** @type {HTMLSelectElement} */ (find("camera-choice"));
  choice.addEventListener("change", () => camera.start(choice.value));
  drawState(camera, photos);
  if (camera.state === "off" && loadSetting("camera-on")) camera.start();
}

/** @param {Camera} camera @param {PhotoList} photos */
function drawState(camera, photos) {
  const { state } = camera;
  const { selected } = photos;
  const still = /** @type {HTMLImageElement} */ (find("still"));
  still.hidden = find("back").hidden = !selected;
  if (selected) still.src = selected.url;
  find("camera").dataset.state = state;
  find("camera-message").hidden = state === "on" || selected !== null;
  find("camera-controls").hidden = state !== "on" || selected !== null;
  find("finder").classList.toggle("mirrored", state === "on" && camera.facesUser && !selected);
  if (!selected) drawWaiting(say(state === "on" ? "answer.looking" : "answer.idle"));
  if (state === "on") {
    saveSetting("camera-on", true);
    listCameras(camera);
    return;
  }
  find("camera-text").textContent = say(`camera.${state}`);
  find("camera-hint").textContent = say(state === "off" ? "app.off_hint" : `camera.${state}_hint`);
  const start = find("camera-start");
  start.hidden = state === "asking" || state === "insecure";
  start.textContent = say(state === "off" ? "camera.start" : "camera.retry");
}

/** @param {Camera} camera */
async function listCameras(camera) {
  if (camera.state !== "on") return;
  const devices = await camera.choices().catch(() => []);
  const options = devices.map(({ deviceId, label }, index) =>
    make("option", { value: deviceId }, label || say("camera.number", { number: index + 1 })),
  );
  const choice = /** @type {HTMLSelectElement} */ (find("camera-choice"));
  choice.replaceChildren(...options);
  choice.value = camera.id ?? "";
  find("camera-choice-label").hidden = devices.length < 2;
}
