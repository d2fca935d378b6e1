// @ts-check
// The name field, the only one: it says what it names, and teaches that.

import {
  answerEvents, hold, isLearning, shownAnswer, shownPicture, teachShown,
} from "./answer.js";
import { otherLabels } from "./answer_state.js";
import { setUpCombobox } from "./combobox.js";
import { find } from "./dom.js";
import { makeUrl } from "./drawable.js";
import { labelNames } from "./memory.js";
import { isAboutAnswer, targetOf } from "./naming_state.js";
import { teachSelected, trayCounts, trayEvents } from "./tray.js";
import { say } from "./words.js";

/** @import { ApiError } from "./api.js" */
/** @import { Camera } from "./camera.js" */
/** @import { Target } from "./naming_state.js" */
/** @import { Picture } from "./types.d.ts" */

/** @type {Camera} */
let camera;
/** @type {Target} */
let target = { kind: "none" };
/** @type {Picture | null} */
let subject = null; // on the screen beside the field
let corrects = false; // the next name is for the answer's picture

/** @param {Camera} theCamera */
export function setUpNaming(theCamera) {
  camera = theCamera;
  const [form, field] = [find("name-form"), find("name")];
  setUpCombobox(field, () =>
    isAboutAnswer(target) ? otherLabels(shownAnswer(), labelNames()) : labelNames(),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  // The field keeps the focus, and so the answer stands still until it is taught.
  find("teach-button").addEventListener("mousedown", (event) => event.preventDefault());
  field.addEventListener("input", () => showProblem(""));
  form.addEventListener("focusin", draw);
  form.addEventListener("focusout", (event) => {
    if (event.relatedTarget instanceof Node && form.contains(event.relatedTarget)) return;
    corrects = false;
    draw();
  });
  find("something-else").addEventListener("click", nameShown);
  trayEvents.addEventListener("changed", draw);
  answerEvents.addEventListener("shown", draw);
  answerEvents.addEventListener("learning", draw);
  draw();
}

/** Say what a name is for; hold the answer while it is typed for that. */
function draw() {
  const { waiting, selected, learning } = trayCounts();
  const picture = shownPicture();
  const live = picture && Boolean(picture.live);
  const before = target;
  target = targetOf({ waiting, selected, live, corrects });
  if (target.kind !== before.kind) showProblem("");
  drawWords(learning || (isLearning() ? 1 : 0));
  const isTyping = find("name-form").contains(document.activeElement);
  const namesShown = isTyping && isAboutAnswer(target);
  hold("name", namesShown);
  drawSubject(namesShown ? picture : null);
}

/**
 * Write what is new: live answers come several times a second.
 * @param {number} busy photos that are being learned
 */
function drawWords(busy) {
  const [label, button] = [find("name-target"), find("teach-button")];
  const key = JSON.stringify([target, busy]);
  if (label.dataset.key === key) return;
  label.dataset.key = key;
  label.textContent = wordsOf(target);
  button.disabled = busy > 0;
  button.classList.toggle("working", busy > 0);
  button.textContent = busy ? say("tray.learning", { count: busy }) : buttonWords(target);
}

/**
 * Show what is being named beside its name: a phone's keyboard hides the viewfinder.
 * @param {Picture | null} picture
 */
function drawSubject(picture) {
  if (picture === subject) return;
  subject = picture;
  const image = find("name-subject");
  URL.revokeObjectURL(image.src);
  image.hidden = picture === null;
  if (picture) image.src = makeUrl(picture);
}

/** @param {Target} target */
function wordsOf(target) {
  if (target.kind === "photos") return say("name.photos", { count: target.count });
  return target.kind === "shown" ? say("name.photos", { count: 1 }) : say(`name.${target.kind}`);
}

/** @param {Target} target */
function buttonWords(target) {
  if (target.kind === "photos") return say("tray.teach_count", { count: target.count });
  return say(isAboutAnswer(target) ? "name.teach_this" : "tray.teach");
}

/** Go to the field to name what the answer is about: it was wrong, or unknown. */
export function nameShown() {
  corrects = true;
  draw();
  find("name").focus();
}

async function submit() {
  const field = find("name");
  const label = field.value.trim();
  const about = target;
  if (about.kind === "none") return showProblem(say("tray.need_picture"));
  if (about.kind === "select") return showProblem(say("tray.need_choice"));
  if (!label) {
    field.focus();
    return showProblem(say("tray.need_name"));
  }
  if (trayCounts().learning || isLearning()) return;
  const teach = about.kind === "photos" ? teachSelected : teachShown;
  const teaching = teach(label, showLabelError);
  field.value = ""; // what is typed from now on is the next name
  leaveField();
  if (await teaching) return;
  field.value ||= label;
  field.focus();
}

/** With a camera, the next thing to do is to snap: the space key does it from now on. */
function leaveField() {
  if (camera.state === "on") find("snap").focus({ preventScroll: true });
}

/**
 * Say what is wrong with a name where it was typed.
 * @param {ApiError} error
 */
function showLabelError(error) {
  if (error.kind === "label") showProblem(error.message);
  return error.kind === "label";
}

/** @param {string} text */
function showProblem(text) {
  find("name-problem").textContent = text;
  find("name").setAttribute("aria-invalid", String(Boolean(text)));
}

/**
 * Put a name into the field, ready for pictures of it.
 * @param {string} label
 */
export function prepareName(label) {
  find("name").value = label;
  showProblem("");
  const snap = find("snap");
  (snap.hidden ? find(camera.state === "insecure" ? "photo" : "pick") : snap).focus();
}
