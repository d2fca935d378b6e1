// @ts-check
// The things it knows, as cards: pictures, name, status; add, rename, merge, forget.

import { matchNames } from "./combobox.js";
import { connectionEvents } from "./connection.js";
import { button, exampleImage, find, iconButton, make, retryExampleImages } from "./dom.js";
import { forget } from "./editing.js";
import { restingPlace } from "./hold.js";
import { findNegatives, labelNames, memory, memoryEvents, nameOf, NONE } from "./memory.js";
import { openMerge } from "./merging.js";
import { prepareName } from "./naming.js";
import { openPhotos } from "./photos.js";
import { editName, warnOfLostName } from "./renaming.js";
import { describeTested, selfTestEvents, testedOf } from "./self_test.js";
import { notify } from "./toasts.js";
import { say } from "./words.js";

/** @import { Thing } from "./types.d.ts" */

const MIN_FILTER = 9; // things, from which on a filter is of use
const MIN_COMPACT = 50; // from which on they are a list, the latest first
/** @type {Map<string, HTMLLIElement>} */
const cards = new Map(); // by label
let drawn = false; // what is there at first is not news
/** @type {{ label: string, revision: number } | null} */
let taught = null; // what to jump to when its card is there

export function setUpThings() {
  memoryEvents.addEventListener("taught", (event) => {
    taught = /** @type {CustomEvent} */ (event).detail;
    jumpToTaught();
  });
  memoryEvents.addEventListener("changed", () => (drawThings(), jumpToTaught()));
  selfTestEvents.addEventListener("changed", drawStatuses);
  connectionEvents.addEventListener("back", retryExampleImages);
  find("filter").addEventListener("input", drawThings);
}

const isCompact = () => memory.labels.length >= MIN_COMPACT;

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
  find("cards").classList.toggle("compact", isCompact());
  if (isCompact()) shown.sort((a, b) => (b.changed ?? 0) - (a.changed ?? 0));
  arrange(negatives ? [...shown, negatives] : shown);
}

/** Show the thing that was just taught, in a long list; not if that would move the camera away. */
function jumpToTaught() {
  if (taught === null || (memory.revision ?? 0) < taught.revision) return;
  const { label } = taught;
  taught = null;
  if (!isCompact()) return;
  if (find("filter").value && !matchNames([label], find("filter").value).length) {
    find("filter").value = "";
    drawThings();
  }
  const card = cards.get(label);
  if (!card?.isConnected) return;
  card.classList.remove("fresh");
  void card.offsetWidth; // so that it lights up again
  card.classList.add("fresh");
  const above = matchMedia("(max-width: 860px)").matches && find("camera").dataset.state === "on";
  if (!above) card.scrollIntoView({ block: "nearest" });
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
  for (const [label, card] of cards) {
    if (names.has(label)) continue;
    warnOfLostName(card, label);
    cards.delete(label);
  }
  const active = document.activeElement;
  const card = active?.matches(":focus-visible") ? active.closest(".card") : null;
  const leaves = card !== null && !nodes.some((node) => node === card);
  const place = leaves ? [...list.children].indexOf(card) : -1;
  replaceCards(list, nodes);
  if (place < 0 || document.activeElement !== document.body) return;
  const beside = nodes[Math.min(place, nodes.length - 1)]?.querySelector("button");
  (beside ?? restingPlace()).focus({ preventScroll: true });
}

/**
 * Return the card of a thing; one that has not changed stays as it is, so hundreds cost nothing.
 * @param {Thing} thing
 */
function cardFor(thing) {
  const old = cards.get(thing.label);
  const key = JSON.stringify([thing, memory.labels.length > 1, isCompact()]);
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
 * @param {HTMLElement} list
 * @param {HTMLElement[]} nodes
 */
function replaceCards(list, nodes) {
  const here = new Set(/** @type {Element[]} */ (nodes));
  for (const node of [...list.children]) if (!here.has(node)) node.remove();
  const fixed = nodes.findIndex((node) => node.classList.contains("editing"));
  if (fixed >= 0) return placeAround(nodes, fixed);
  for (const [index, node] of nodes.entries()) {
    if (node !== list.children[index]) list.insertBefore(node, list.children[index] ?? null);
  }
}

/**
 * Put nodes in order without moving one of them: a field that moves loses the focus.
 * @param {HTMLElement[]} nodes
 * @param {number} fixed
 */
function placeAround(nodes, fixed) {
  for (let index = fixed - 1; index >= 0; index -= 1) {
    const next = nodes[index + 1];
    if (next.previousElementSibling !== nodes[index]) next.before(nodes[index]);
  }
  for (let index = fixed + 1; index < nodes.length; index += 1) {
    const last = nodes[index - 1];
    if (last.nextElementSibling !== nodes[index]) last.after(nodes[index]);
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
  const startEdit = () => editName(card, name, label, (now) => focusRename(now ?? label));
  name.addEventListener("dblclick", startEdit);
  card.append(makeActions(label, startEdit));
  drawStatus(card, thing);
  return card;
}

/**
 * Make the card of the photos of none of the things: it has no name that could be changed.
 * @param {Thing} thing
 */
function makeNegativesCard(thing) {
  const title = say("things.none_hint");
  const name = make("h3", { class: "clip quiet", title }, say("answer.none"));
  const card = cardNode(thing, nameOf(NONE), name);
  const empty = iconButton(say("things.forget_none"), "forget", () => forget(NONE));
  card.append(make("div", { class: "card-actions" }, empty));
  return card;
}

/** @param {Thing} thing @param {string} shownName @param {HTMLElement} name */
function cardNode({ label, shown, examples }, shownName, name) {
  const some = isCompact() ? shown.slice(0, 1) : shown;
  const pictures = (some.length ? some : [null]).map((example) => exampleImage(label, example));
  const about = { "aria-label": say("things.see_of", { label: shownName }) };
  const all = { class: "faces", title: say("things.see"), ...about };
  const faces = button(pictures, () => openPhotos(label), all);
  const number = make("span", {}, say("photos", { count: examples }));
  const line = make("p", { class: "quiet facts" }, number);
  return make("li", { class: "panel card", "aria-label": shownName }, faces, name, line);
}

/** @param {string} label @param {() => void} startEdit */
function makeActions(label, startEdit) {
  const alone = memory.labels.length < 2;
  const mergeName = say("things.merge", { label });
  return make(
    "div",
    { class: "card-actions" },
    iconButton(say("things.add", { label }), "plus", () => addPhotos(label)),
    iconButton(say("things.rename", { label }), "edit", startEdit),
    iconButton(mergeName, "merge", () => openMerge(label), { disabled: alone }),
    iconButton(say("things.forget", { label }), "forget", () => forget(label)),
  );
}

/**
 * Get ready for more photos of a thing; another name that was typed can be had back.
 * @param {string} label
 */
function addPhotos(label) {
  const typed = find("name").value;
  prepareName(label);
  if (!typed.trim() || typed.trim() === label) return;
  const undo = () => (find("name").value = typed);
  notify(say("things.name_replaced", { label, name: typed.trim() }), { undo });
}

function drawStatuses() {
  for (const thing of memory.labels) {
    const card = cards.get(thing.label);
    if (card) drawStatus(card, thing);
  }
}

/**
 * Say on a card how many of its photos are recognized; where some are not, lead to them.
 * @param {HTMLElement} card
 * @param {Thing} thing
 */
function drawStatus(card, thing) {
  const line = card.querySelector(".facts");
  const old = line?.querySelector(".status");
  const status = statusOf(thing);
  if (old?.textContent === status?.textContent) return;
  old?.remove();
  if (status) line?.append(status);
}

/** @param {Thing} thing */
function statusOf(thing) {
  const { label, examples } = thing;
  const hint = say("things.status_hint");
  if (examples === 1) return make("span", { class: "status doubtful" }, say("things.only_one"));
  const tested = testedOf(thing);
  if (!tested?.tested) return null;
  const words = describeTested(tested, examples);
  const fine = tested.recognized === tested.tested;
  if (fine) return make("span", { class: "status", title: hint }, words);
  const about = { class: "status doubtful", title: say("things.which", { label }) };
  return button(words, () => openPhotos(label), about);
}

/** @param {string} label */
function focusRename(label) {
  const actions = cards.get(label)?.querySelectorAll(".card-actions button");
  if (actions) /** @type {HTMLElement} */ (actions[1]).focus();
}
