// @ts-check
// "That was wrong": the photos that the answer comes from, what I would say without each of them.

import { shownAnswer, shownPicture } from "./answer.js";
import { formData, post } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, exampleImage, find, make } from "./dom.js";
import { makeUrl } from "./drawable.js";
import { removeExamples } from "./editing.js";
import { attempt } from "./toasts.js";
import { percent, say, sayNodes } from "./words.js";

/** @import { Picture, Suspect } from "./types.d.ts" */

/** @type {Picture | null} */
let picture = null; // that the dialog is about
let said = ""; // the label that was answered
let subject = ""; // its address while the dialog is open

export function setUpSuspects() {
  find("wrong").addEventListener("click", openSuspects);
  find("suspects-dialog").addEventListener("close", () => {
    URL.revokeObjectURL(subject);
    picture = null;
  });
}

async function openSuspects() {
  picture = shownPicture();
  said = shownAnswer()?.label ?? "";
  if (!picture) return;
  subject = makeUrl(picture);
  find("suspects-subject").src = subject;
  find("suspects-said").textContent = said;
  openDialog("suspects-dialog");
  await drawSuspects(picture);
}

/** @param {Picture} about */
async function drawSuspects(about) {
  const list = find("suspects");
  list.replaceChildren(make("li", { class: "quiet working" }, say("suspects.wait")));
  const form = formData(about.seen ? { seen: about.seen } : { picture: about });
  const result = await attempt(() => post("/api/suspects", form));
  if (picture !== about) return; // the dialog was closed, or is about another
  const rows = (result?.suspects ?? []).map((suspect) => suspectRow(suspect, about));
  if (!rows.length) rows.push(make("li", { class: "quiet" }, say("suspects.none")));
  list.replaceChildren(...rows);
}

/** @param {Suspect} suspect @param {Picture} about */
function suspectRow({ example, label, confidence }, about) {
  const setAside = async () => {
    if (await removeExamples([example], said)) drawSuspects(about);
  };
  return make(
    "li",
    { class: "row" },
    exampleImage(said, example),
    make("p", {}, wordsFor(label, confidence)),
    button(say("suspects.remove"), setAside, { class: "small" }),
  );
}

/** @param {string | null} label @param {number | null} confidence */
function wordsFor(label, confidence) {
  if (confidence === null) return say("suspects.nothing");
  if (label === null) return say("suspects.unknown");
  const values = { label: make("strong", { dir: "auto" }, label), percent: percent(confidence) };
  return sayNodes("suspects.without", values);
}
