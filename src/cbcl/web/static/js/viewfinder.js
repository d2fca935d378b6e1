// @ts-check
// The viewfinder: the camera's state in words, and its controls; recording.js has the snap button.

import { find, loadSetting, make, saveSetting } from "./dom.js";
import { setUpSnap } from "./recording.js";
import { say } from "./words.js";

/** @import { Camera } from "./camera.js" */

/**
 * Show the camera's state and controls; call snapped for every picture.
 * @param {Camera} camera
 * @param {(blob: Blob) => void} snapped
 */
export function setUpViewfinder(camera, snapped) {
  camera.addEventListener("state", () => drawState(camera));
  camera.addEventListener("devices", () => listCameras(camera));
  find("camera-start").addEventListener("click", () => camera.start());
  find("camera-stop").addEventListener("click", () => {
    saveSetting("camera-on", false);
    camera.stop();
  });
  const choice = find("camera-choice");
  choice.addEventListener("change", () => camera.start(choice.value));
  find("mirror").addEventListener("click", () => {
    const on = find("mirror").getAttribute("aria-pressed") !== "true";
    mirror(on);
    saveSetting("mirror", on);
  });
  setUpSnap(camera, snapped);
  drawState(camera);
  startIfAllowed(camera);
}

/**
 * Start without a press for who has used the camera before, or has allowed it.
 * @param {Camera} camera
 */
async function startIfAllowed(camera) {
  const before = loadSetting("camera-on");
  if (camera.state !== "off" || before === false) return;
  if (before) return void camera.start();
  const permission = await navigator.permissions?.query({ name: "camera" }).catch(() => null);
  if (permission?.state === "granted" && camera.state === "off") camera.start();
}

/** @param {Camera} camera */
function drawState(camera) {
  const { state } = camera;
  // Its state says it from now on.
  if (state !== "off") document.documentElement.classList.remove("live");
  find("camera").dataset.state = state;
  find("camera-message").hidden = state === "on";
  for (const id of ["camera-controls", "snap"]) find(id).hidden = state !== "on";
  if (state === "on") {
    saveSetting("camera-on", true);
    mirror(loadSetting("mirror") ?? camera.facesUser);
    listCameras(camera);
    return;
  }
  find("camera-text").textContent = say(`camera.${state}`);
  find("camera-hint").textContent = say(`camera.${state}_hint`);
  const start = find("camera-start");
  start.hidden = state === "asking" || state === "insecure";
  start.textContent = say(state === "off" ? "camera.start" : "camera.retry");
  find("photo-label").hidden = state !== "insecure";
}

/**
 * Mirror the view; the pictures themselves stay as they are.
 * @param {boolean} on
 */
function mirror(on) {
  find("mirror").setAttribute("aria-pressed", String(on));
  find("finder").classList.toggle("mirrored", on);
}

/** @param {Camera} camera */
async function listCameras(camera) {
  if (camera.state !== "on") return;
  const devices = await camera.choices().catch(() => []);
  const options = devices.map(({ deviceId, label }, index) =>
    make("option", { value: deviceId }, label || say("camera.number", { number: index + 1 })),
  );
  find("camera-choice").replaceChildren(...options);
  find("camera-choice").value = camera.id ?? "";
  find("camera-choice-label").hidden = devices.length < 2;
}
