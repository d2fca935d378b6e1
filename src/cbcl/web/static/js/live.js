// Asks about what the camera sees, four times a second: one question at a time, and none while nobody looks.

import { clear, isHeld, panel, pictureShown, show } from "./answer.js";
import { find, pause } from "./dom.js";
import { connection, state } from "./connection.js";
import { askOne } from "./teaching.js";
import { warn } from "./toasts.js";

const EVERY = 250; // milliseconds from question to question

export async function runLive(camera) {
  camera.addEventListener("state", () => rest(camera));
  connection.addEventListener("changed", () => (state.connected && !state.problem && pictureShown()) || rest(camera));
  showWhatIsHeld(camera);
  for (;;) {
    const began = performance.now();
    let wait = EVERY;
    if (wanted(camera)) wait = await look(camera);
    await pause(Math.max(20, wait - (performance.now() - began)));
  }
}

/** What to say while there is no answer. */
function rest(camera) {
  if (!state.connected) clear("Waiting for the server…");
  else if (state.problem) clear("I cannot look at pictures now");
  else clear(camera.state === "on" ? "Let me see…" : "Show me something");
}

const wanted = (camera) =>
  camera.ready && !document.hidden && !isHeld() && !find("teach").hidden && state.connected && !state.problem;

/** Ask about one frame; the milliseconds to wait before the next. */
async function look(camera) {
  const blob = await camera.frame();
  if (!blob) return EVERY;
  const picture = { name: "camera.jpg", blob, seen: null, live: true };
  try {
    const answer = await askOne(picture, { signal: AbortSignal.timeout(30_000) });
    picture.seen = answer.seen;
    if (camera.state === "on") show(answer, picture);
    return EVERY;
  } catch (error) {
    if (error.status === 429) return error.wait * 1000;
    if (!["gone", "token", "backbone"].includes(error.kind) && error.name !== "TimeoutError") warn(error.message);
    return 2000;
  }
}

/** While the answer is held, the finder shows the frame that it is about. */
function showWhatIsHeld(camera) {
  const still = find("still");
  let late = null;
  panel.addEventListener("hold", ({ detail: picture }) => {
    if (!picture?.live || camera.state !== "on") return;
    late = setTimeout(() => {
      still.src = URL.createObjectURL(picture.blob);
      still.hidden = false;
      find("held").hidden = false;
    }, 250); // a pointer that only passes by leaves the picture alone
  });
  panel.addEventListener("release", () => {
    clearTimeout(late);
    if (still.src) URL.revokeObjectURL(still.src);
    still.removeAttribute("src");
    still.hidden = true;
    find("held").hidden = true;
  });
}
