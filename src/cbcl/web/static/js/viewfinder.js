// The viewfinder: the camera's states in words, its controls, and the button that snaps once or, held, many times.

import { find, make, recall, remember } from "./dom.js";

const EVERY = 200; // milliseconds between the snaps of a burst
const HELD = 400; // milliseconds until a press is a hold

const FIELDS = "input:not([type=checkbox]), textarea, select, dialog, [popover]"; // that want the space key themselves
const PRESSED = ":is(button, input, a):focus-visible:not(#snap)"; // likewise, if it was reached with the keyboard

const WORDS = {
  off: ["Show me something with the camera.", "The pictures go to this server, and nowhere else."],
  asking: ["May I use the camera?", "The browser asks you, near the address."],
  none: ["There is no camera here.", "Plug one in, or drop, paste or pick photos."],
  refused: ["The camera was refused.", "Allow it beside the address and try again, or drop, paste or pick photos."],
  taken: ["Another program uses the camera.", "Close it there and try again, or drop, paste or pick photos."],
  insecure: [
    "No live camera at this address.",
    "Browsers lend it only to https addresses and to this machine itself. A photo works just as well.",
  ],
};

/** Show the camera's state and controls; snapped(blob) is called for every picture. */
export function setUpFinder(camera, snapped) {
  camera.addEventListener("state", () => show(camera));
  camera.addEventListener("devices", () => list(camera));
  find("camera-start").addEventListener("click", () => camera.start());
  find("camera-stop").addEventListener("click", () => {
    remember("camera-on", false);
    camera.stop();
  });
  find("camera-choice").addEventListener("change", (event) => camera.start(event.target.value));
  find("mirror").addEventListener("click", () => mirror(find("mirror").getAttribute("aria-pressed") !== "true", true));
  setUpSnap(camera, snapped);
  show(camera);
  startIfAllowed(camera);
}

/** Who has used the camera before, or has allowed it, need not press a button. */
async function startIfAllowed(camera) {
  const before = recall("camera-on");
  if (camera.state !== "off" || before === false) return;
  if (before) return camera.start();
  const permission = await navigator.permissions?.query({ name: "camera" }).catch(() => null);
  if (permission?.state === "granted" && camera.state === "off") camera.start();
}

function show(camera) {
  const on = camera.state === "on";
  if (camera.state !== "off") document.documentElement.classList.remove("live"); // its state says it from now on
  find("camera").dataset.state = camera.state;
  find("camera-message").hidden = on;
  for (const id of ["camera-controls", "snap"]) find(id).hidden = !on;
  if (on) {
    remember("camera-on", true);
    mirror(recall("mirror") ?? camera.facesUser);
    list(camera);
    return;
  }
  const [text, hint] = WORDS[camera.state];
  find("camera-text").textContent = text;
  find("camera-hint").textContent = hint;
  const start = find("camera-start");
  start.hidden = ["asking", "insecure"].includes(camera.state);
  start.textContent = camera.state === "off" ? "Turn on the camera" : "Try again";
  find("photo-label").hidden = camera.state !== "insecure";
}

/** Mirroring is for the eye: the pictures themselves stay as they are. */
function mirror(on, chosen = false) {
  find("mirror").setAttribute("aria-pressed", String(on));
  find("finder").classList.toggle("mirrored", on);
  if (chosen) remember("mirror", on);
}

async function list(camera) {
  if (camera.state !== "on") return;
  const choices = await camera.choices().catch(() => []);
  const options = choices.map((one, at) => make("option", { value: one.deviceId }, one.label || `Camera ${at + 1}`));
  find("camera-choice").replaceChildren(...options);
  find("camera-choice").value = camera.id ?? "";
  find("camera-choice-label").hidden = choices.length < 2;
}

let burst = null;

function setUpSnap(camera, snapped) {
  const button = find("snap");
  const snap = () => {
    const before = camera.frame();
    flash();
    before.then((blob) => blob && snapped(blob));
  };
  button.addEventListener("pointerdown", (event) => event.button === 0 && press(snap));
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) button.addEventListener(name, letGo);
  button.addEventListener("contextmenu", (event) => event.preventDefault()); // a long touch is a burst
  button.addEventListener("click", (event) => event.detail === 0 && snap()); // neither pointer nor space: an assistant
  document.addEventListener("keydown", (event) => spaceDown(event, camera, snap));
  document.addEventListener("keyup", (event) => {
    if (event.code !== "Space" || !burst) return;
    event.preventDefault();
    letGo();
  });
  window.addEventListener("blur", letGo);
}

function spaceDown(event, camera, snap) {
  const elsewhere = event.target.closest?.(`${FIELDS}, ${PRESSED}`);
  const wanted = event.code === "Space" && !event.ctrlKey && !event.altKey && !event.metaKey && !elsewhere;
  const off = recall("keys", true) === false && event.target !== find("snap");
  if (!wanted || off || camera.state !== "on" || find("teach").hidden) return;
  event.preventDefault();
  if (!event.repeat) press(snap);
}

function press(snap) {
  letGo();
  snap();
  burst = setTimeout(function more() {
    snap();
    burst = setTimeout(more, EVERY);
  }, HELD);
}

function letGo() {
  clearTimeout(burst);
  burst = null;
}

function flash() {
  const finder = find("finder");
  finder.classList.remove("flash");
  void finder.offsetWidth; // so that the flash starts anew
  finder.classList.add("flash");
}
