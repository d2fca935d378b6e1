// Draws the tray: a tile for each picture, groups of sure guesses, progress, and what could not be read.

import { button, count, find, icon, iconButton, make, percent, photo } from "./dom.js";

/** A picture's tile; what one does with it is given as functions of the picture. */
export function tileOf(picture, { choose, only, discard, accept }) {
  const box = make("input", { type: "checkbox", onchange: () => choose(picture, box.checked) });
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter") (event.preventDefault(), only(picture));
    if (event.key === "Delete" || event.key === "Backspace") (event.preventDefault(), discard(picture));
  });
  const image = photo(picture.url);
  image.addEventListener("error", () => image.classList.add("blank"), { once: true });
  const title = `${picture.name} (double click: only this one)`;
  const face = make("label", { class: "face", title, ondblclick: () => only(picture) }, box, image);
  const yes = iconButton("Yes", "check", () => accept(picture), { class: "icon-button yes" });
  const out = iconButton(`Take out ${picture.name}`, "close", () => discard(picture), { class: "icon-button out" });
  const guess = make("span", { class: "guess", dir: "auto" });
  const sure = make("span", { class: "sure" });
  const caption = make("div", { class: "caption" }, make("span", { class: "words" }, guess, sure), yes);
  const node = make("li", { class: "tile" }, face, out, caption);
  node.draw = () => drawTile(picture, { node, box, guess, sure, yes });
  return node;
}

function drawTile(picture, { node, box, guess, sure, yes }) {
  const [word, number] = told(picture);
  node.classList.toggle("chosen", picture.chosen);
  node.classList.toggle("unknown", picture.answer?.label === null);
  box.checked = picture.chosen;
  box.setAttribute("aria-label", `${picture.name}: ${word} ${number}`.trim());
  guess.textContent = word;
  sure.textContent = number;
  yes.hidden = !picture.answer?.label;
  const name = `Yes, this is ${picture.answer?.label}`;
  yes.setAttribute("aria-label", name);
  yes.title = name;
}

/** The guess in words, and how sure. */
function told({ answer, skipped }) {
  if (!answer) return [skipped ? "not asked" : "…", ""];
  if (answer.confidence === null) return ["new to me", ""];
  return [answer.label ?? "unknown", percent(answer.confidence)];
}

export function drawTray(tray, chosen, groups, { accept, dismiss }) {
  const { pictures } = tray;
  find("tray").classList.toggle("full", pictures.length > 0);
  find("tray-count").textContent = pictures.length || "";
  find("tray-empty").hidden = pictures.length > 0;
  find("selection").hidden = pictures.length < 2;
  find("selection-text").textContent = `${chosen} of ${pictures.length} chosen`;
  find("selection-hint").hidden = pictures.length < 4 || tray.unsorted;
  find("discard").disabled = chosen === 0;
  drawButton(tray.learning, chosen);
  drawProgress(tray.progress, tray.asking !== null);
  find("groups").replaceChildren(...groups.map(([label, alike]) => groupRow(label, alike, accept, tray.learning > 0)));
  find("problems").replaceChildren(...tray.problems.map((problem) => problemRow(problem, () => dismiss(problem))));
  arrange(pictures);
}

function drawButton(learning, chosen) {
  const teach = find("teach-button");
  teach.disabled = learning > 0;
  teach.classList.toggle("working", learning > 0);
  teach.textContent = learning ? `Learning ${learning}…` : chosen ? `Teach ${count(chosen, "picture")}` : "Teach";
}

function drawProgress(progress, asking) {
  const long = progress !== null && progress.all > 8;
  find("progress").hidden = !long;
  if (!long) return;
  find("progress-bar").max = progress.all;
  find("progress-bar").value = progress.done;
  find("stop").textContent = asking ? "Stop" : "Go on";
  find("progress-text").textContent = `${progress.done} of ${progress.all} looked at`;
}

function groupRow(label, pictures, accept, busy) {
  const words = make("span", {}, make("strong", {}, String(pictures.length)), " look like ", make("bdi", {}, label));
  const name = `Yes, all ${pictures.length} are ${label}`;
  const yes = () => accept(label, pictures);
  const attributes = { class: "small", "aria-label": name, disabled: busy };
  return make("li", {}, words, button([icon("check"), "Yes, all"], yes, attributes));
}

function problemRow(problem, dismiss) {
  const known = problem.message.includes(problem.picture);
  const words = known ? problem.message : `${problem.picture}: ${problem.message}`;
  return make("li", {}, make("span", { dir: "auto" }, words), iconButton("Dismiss", "close", dismiss));
}

/** Put the tiles in their order, moving only if it changed: what has the focus keeps it. */
function arrange(pictures) {
  pictures.forEach((picture) => picture.node.draw());
  const list = find("pictures");
  const nodes = pictures.map((picture) => picture.node);
  if (nodes.length === list.children.length && nodes.every((node, at) => node === list.children[at])) return;
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const at = focused ? [...list.children].indexOf(focused.closest("li")) : -1;
  list.replaceChildren(...nodes);
  if (!focused) return;
  const beside = list.children[Math.min(at, nodes.length - 1)]?.querySelector("input");
  (list.contains(focused) ? focused : (beside ?? find("name"))).focus({ preventScroll: true });
}
