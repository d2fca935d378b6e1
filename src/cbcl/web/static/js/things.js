// @ts-check
// The things it knows, as cards: pictures, name, numbers; add, rename, merge, forget.

import { matchNames } from "./combobox.js";
import { openExamples, openMerge } from "./dialogs.js";
import { button, count, exampleImage, find, iconButton, make } from "./dom.js";
import { forget, rename } from "./editing.js";
import { findNegatives, labelNames, memory, memoryEvents, NONE } from "./memory.js";
import { prepareName } from "./tray.js";

/** @import { Thing } from "./types.d.ts" */

const MIN_FILTER = 9; // things, from which on a filter is of use
/** @type {Map<string, HTMLLIElement>} */
const cards = new Map(); // by label
let drawn = false; // what is there at first is not news

export function setUpThings() {
  memoryEvents.addEventListener("changed", drawThings);
  find("filter").addEventListener("input", drawThings);
}

function drawThings() {
  const { labels } = memory;
  const few = labels.length < MIN_FILTER;
  find("things-count").textContent = String(labels.length || "");
  find("things-empty").hidden = labels.length > 0;
  find("private-note").hidden = !memory.private || labels.length === 0;
  find("filter-label").hidden = few;
  if (few) find("filter").value = "";
  const wanted = new Set(matchNames(labelNames(), find("filter").value));
  find("things-none").hidden = labels.length === 0 || wanted.size > 0;
  const negatives = find("filter").value ? null : findNegatives();
  const shown = labels.filter((thing) => wanted.has(thing.label));
  arrange(negatives ? [...shown, negatives] : shown);
}

/**
 * Put the cards in their order; the focus of a card that has gone moves to the next.
 * @param {Thing[]} things
 */
function arrange(things) {
  const list = find("cards");
  const nodes = things.map(cardFor);
  drawn = true;
  const names = new Set([...labelNames(), NONE]);
  for (const label of cards.keys()) if (!names.has(label)) cards.delete(label);
  const active = document.activeElement;
  const card = active?.matches(":focus-visible") ? active.closest(".card") : null;
  const leaves = card !== null && !nodes.some((node) => node === card);
  const place = leaves ? [...list.children].indexOf(card) : -1;
  replaceCards(list, nodes);
  if (place < 0 || document.activeElement !== document.body) return;
  const beside = nodes[Math.min(place, nodes.length - 1)]?.querySelector("button");
  (beside ?? find("name")).focus({ preventScroll: true });
}

/**
 * Return the card of a thing; one that has not changed stays as it is, so hundreds cost nothing.
 * @param {Thing} thing
 */
function cardFor(thing) {
  const old = cards.get(thing.label);
  const key = JSON.stringify([thing, memory.labels.length > 1]);
  if (old && (old.dataset.key === key || old.classList.contains("editing"))) return old;
  const card = makeCard(thing);
  card.dataset.key = key;
  card.dataset.thing = JSON.stringify(thing);
  card.classList.toggle("fresh", drawn && old?.dataset.thing !== card.dataset.thing);
  cards.set(thing.label, card);
  if (old?.contains(document.activeElement)) keepFocus(old, card);
  return card;
}

/**
 * Take out what is gone and put in what is new.
 * What stays is not touched, so that a name being typed is not lost.
 * @param {HTMLElement} list
 * @param {HTMLElement[]} nodes
 */
function replaceCards(list, nodes) {
  const here = new Set(/** @type {Element[]} */ (nodes));
  for (const node of [...list.children]) if (!here.has(node)) node.remove();
  for (const [index, node] of nodes.entries()) {
    if (node !== list.children[index]) list.insertBefore(node, list.children[index] ?? null);
  }
}

/**
 * Give the same control of the new card the focus that the old one had.
 * @param {HTMLElement} old
 * @param {HTMLElement} card
 */
function keepFocus(old, card) {
  const controls = [...old.querySelectorAll("button")];
  const place = controls.findIndex((control) => control === document.activeElement);
  setTimeout(() => card.querySelectorAll("button")[place]?.focus());
}

/** @param {Thing} thing */
function makeCard(thing) {
  if (thing.label === NONE) return makeNegativesCard(thing);
  const { label } = thing;
  const name = make("h3", { class: "clip", dir: "auto", title: label }, label);
  const card = cardNode(thing, label, name);
  const startEdit = () => editName(card, name, label);
  name.addEventListener("dblclick", startEdit);
  card.append(makeActions(label, startEdit));
  return card;
}

/**
 * Make the card of the photos of none of the things: it has no name that could be changed.
 * @param {Thing} thing
 */
function makeNegativesCard(thing) {
  const title = "These are unknown, and so is what looks like them";
  const name = make("h3", { class: "clip quiet", title }, "None of these");
  const card = cardNode(thing, "none of these", name);
  const empty = iconButton("Forget all of none of these", "forget", () => forget(NONE));
  card.append(make("div", { class: "card-actions" }, empty));
  return card;
}

/** @param {Thing} thing @param {string} shownName @param {HTMLElement} name */
function cardNode({ label, shown, examples }, shownName, name) {
  const pictures = (shown.length ? shown : [null]).map((example) => exampleImage(label, example));
  const all = { class: "faces", "aria-label": `See all photos of ${shownName}` };
  const faces = button(pictures, () => openExamples(label), { ...all, title: "See all photos" });
  const about = make("p", { class: "quiet" }, count(examples, "photo"));
  return make("li", { class: "panel card", "aria-label": shownName }, faces, name, about);
}

/** @param {string} label @param {() => void} startEdit */
function makeActions(label, startEdit) {
  const alone = memory.labels.length < 2;
  const mergeName = `Merge ${label} into another`;
  return make(
    "div",
    { class: "card-actions" },
    iconButton(`Add photos of ${label}`, "plus", () => prepareName(label)),
    iconButton(`Rename ${label}`, "edit", startEdit),
    iconButton(mergeName, "merge", () => openMerge(label), { disabled: alone }),
    iconButton(`Forget ${label}`, "forget", () => forget(label)),
  );
}

/**
 * Rename in place: Enter keeps the new name, Escape and leaving the field the old one.
 * @param {HTMLElement} card
 * @param {HTMLElement} name
 * @param {string} label
 */
function editName(card, name, label) {
  const about = { type: "text", class: "rename", "aria-label": `New name for ${label}` };
  const input = make("input", { ...about, value: label });
  const endEdit = () => {
    if (!card.classList.contains("editing")) return;
    card.classList.remove("editing");
    input.replaceWith(name);
  };
  input.addEventListener("blur", endEdit);
  input.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    const wish = input.value.trim();
    endEdit();
    const wanted = event.key === "Enter" && wish && wish !== label;
    if (wanted && (await rename(label, wish))) {
      const focus = () => focusRename(cards.get(wish));
      memoryEvents.addEventListener("changed", focus, { once: true });
    } else focusRename(card);
  });
  card.classList.add("editing");
  name.replaceWith(input);
  input.select();
  input.focus();
}

/** @param {HTMLElement | undefined} card */
function focusRename(card) {
  const actions = card?.querySelectorAll(".card-actions button");
  if (actions) /** @type {HTMLElement} */ (actions[1]).focus();
}
