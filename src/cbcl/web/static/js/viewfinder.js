// @ts-check
// The viewfinder: the camera's state in words, its controls, and the button that snaps.

import { find, loadSetting, make, saveSetting } from "./dom.js";

/** @import { Camera } from "./camera.js" */

const BURST_MS = 200; // between the snaps of a burst
const HOLD_MS = 400; // until a press is a hold

// Where the space key has another meaning: in fields, and on what was reached with the keyboard.
const FIELDS = "input:not([type=checkbox]), textarea, select, dialog, [popover]";
const FOCUSED = ":is(button, input, a):focus-visible:not(#snap)";

const MESSAGES = {
  off: ["Show me something with the camera.", "The pictures go to this server, and nowhere else."],
  asking: ["May I use the camera?", "The browser asks you, near the address."],
  none: ["There is no camera here.", "Plug one in, or drop, paste or pick photos."],
  refused: [
    "The camera was refused.",
    "Allow it beside the address and try again, or drop, paste or pick photos.",
  ],
  taken: [
    "Another program uses the camera.",
    "Close it there and try again, or drop, paste or pick photos.",
  ],
  insecure: [
    "No live camera at this address.",
    "Browsers lend it only to https addresses and to this machine itself. " +
      "A photo works just as well.",
  ],
};

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
  const [text, hint] = MESSAGES[state];
  find("camera-text").textContent = text;
  find("camera-hint").textContent = hint;
  const start = find("camera-start");
  start.hidden = state === "asking" || state === "insecure";
  start.textContent = state === "off" ? "Turn on the camera" : "Try again";
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
    make("option", { value: deviceId }, label || `Camera ${index + 1}`),
  );
  find("camera-choice").replaceChildren(...options);
  find("camera-choice").value = camera.id ?? "";
  find("camera-choice-label").hidden = devices.length < 2;
}

/** @type {number | undefined} */
let burst;

/** @param {Camera} camera @param {(blob: Blob) => void} snapped */
function setUpSnap(camera, snapped) {
  const button = find("snap");
  const snap = () => {
    const frame = camera.frame();
    flash();
    frame.then((blob) => blob && snapped(blob));
  };
  button.addEventListener("pointerdown", (event) => event.button === 0 && startBurst(snap));
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    button.addEventListener(name, stopBurst);
  }
  // A long touch is a burst.
  button.addEventListener("contextmenu", (event) => event.preventDefault());
  // A click that is neither of a pointer nor of the space key comes from assistive technology.
  button.addEventListener("click", (event) => event.detail === 0 && snap());
  document.addEventListener("keydown", (event) => onSpaceDown(event, camera, snap));
  document.addEventListener("keyup", (event) => {
    if (event.code !== "Space" || burst === undefined) return;
    event.preventDefault();
    stopBurst();
  });
  window.addEventListener("blur", stopBurst);
}

/** @param {KeyboardEvent} event @param {Camera} camera @param {() => void} snap */
function onSpaceDown(event, camera, snap) {
  const modified = event.ctrlKey || event.altKey || event.metaKey;
  const target = /** @type {Element} */ (event.target);
  if (event.code !== "Space" || modified || target.closest?.(`${FIELDS}, ${FOCUSED}`)) return;
  const off = loadSetting("keys", true) === false && target !== find("snap");
  if (off || camera.state !== "on" || find("teach").hidden) return;
  event.preventDefault();
  if (!event.repeat) startBurst(snap);
}

/** @param {() => void} snap */
function startBurst(snap) {
  stopBurst();
  snap();
  burst = setTimeout(function more() {
    snap();
    burst = setTimeout(more, BURST_MS);
  }, HOLD_MS);
}

function stopBurst() {
  clearTimeout(burst);
  burst = undefined;
}

function flash() {
  const finder = find("finder");
  finder.classList.remove("flash");
  void finder.offsetWidth; // so that the flash starts anew
  finder.classList.add("flash");
}
