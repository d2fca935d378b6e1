// The things it knows, as cards: pictures, name, numbers; add, rename, merge, forget.

import { forget, rename } from "./editing.js";
import { openExamples, openMerge } from "./dialogs.js";
import { button, count, find, iconButton, make, portrait } from "./dom.js";
import { matching } from "./combobox.js";
import { changes, memory } from "./memory.js";
import { prepare } from "./tray.js";

const FILTER_FROM = 9; // things, from which on a filter is of use
const cards = new Map(); // label: card

export function setUpThings() {
  changes.addEventListener("changed", drawThings);
  find("filter").addEventListener("input", drawThings);
}

function drawThings() {
  const { labels } = memory;
  find("things-count").textContent = labels.length || "";
  find("things-empty").hidden = labels.length > 0;
  find("private-note").hidden = !memory.private || labels.length === 0;
  find("filter-label").hidden = labels.length < FILTER_FROM;
  if (labels.length < FILTER_FROM) find("filter").value = "";
  const wanted = new Set(matching(labels.map((thing) => thing.label), find("filter").value));
  find("things-none").hidden = labels.length === 0 || wanted.size > 0;
  arrange(labels.filter((thing) => wanted.has(thing.label)));
}

/** Put the cards in their order; who was at one that has gone is at the next. */
function arrange(things) {
  const list = find("cards");
  const nodes = things.map(cardFor);
  drawn = true;
  const known = new Set(memory.labels.map((thing) => thing.label));
  for (const label of cards.keys()) if (!known.has(label)) cards.delete(label);
  if (nodes.length === list.children.length && nodes.every((node, at) => node === list.children[at])) return;
  const at = document.activeElement.matches(":focus-visible") ? document.activeElement.closest(".card") : null;
  const left = at && !nodes.includes(at) ? [...list.children].indexOf(at) : -1;
  settle(list, nodes);
  if (left < 0 || document.activeElement !== document.body) return;
  const beside = nodes[Math.min(left, nodes.length - 1)]?.querySelector("button");
  (beside ?? find("name")).focus({ preventScroll: true });
}

/** A card that has not changed stays as it is, so hundreds cost nothing. */
function cardFor(thing) {
  const old = cards.get(thing.label);
  const key = JSON.stringify([thing, memory.labels.length > 1]);
  if (old && (old.dataset.key === key || old.classList.contains("editing"))) return old;
  const card = cardOf(thing);
  card.dataset.key = key;
  card.dataset.thing = JSON.stringify(thing);
  card.classList.toggle("fresh", drawn && old?.dataset.thing !== card.dataset.thing);
  cards.set(thing.label, card);
  if (old?.contains(document.activeElement)) keepFocus(old, card);
  return card;
}

/** Take out what is gone and put in what is new; what stays is not touched, so that a name being typed is not lost. */
function settle(list, nodes) {
  [...list.children].filter((node) => !nodes.includes(node)).forEach((node) => node.remove());
  nodes.forEach((node, at) => node === list.children[at] || list.insertBefore(node, list.children[at] ?? null));
}

let drawn = false; // what is there at first is not news

/** The same control of the new card gets the focus that the old one had. */
function keepFocus(old, card) {
  const at = [...old.querySelectorAll("button")].indexOf(document.activeElement);
  setTimeout(() => card.querySelectorAll("button")[at]?.focus());
}

function cardOf(thing) {
  const { label } = thing;
  const pictures = (thing.shown.length ? thing.shown : [null]).map((example) => portrait(label, example));
  const all = { class: "faces", "aria-label": `See all examples of ${label}`, title: "See all examples" };
  const name = make("h3", { dir: "auto", title: label }, label);
  const numbers = `${count(thing.examples, "example")} · ${count(thing.concepts, "concept")}`;
  const card = make(
    "li",
    { class: "card", "aria-label": label },
    button(pictures, () => openExamples(label), all),
    name,
    make("p", { class: "quiet" }, numbers),
  );
  name.addEventListener("dblclick", () => edit(card, name, label));
  card.append(actions(label, () => edit(card, name, label)));
  return card;
}

function actions(label, rename) {
  const alone = memory.labels.length < 2;
  return make(
    "div",
    { class: "card-actions" },
    iconButton(`Add examples of ${label}`, "plus", () => prepare(label)),
    iconButton(`Rename ${label}`, "edit", rename),
    iconButton(`Merge ${label} into another`, "merge", () => openMerge(label), { disabled: alone }),
    iconButton(`Forget ${label}`, "forget", () => forget(label)),
  );
}

/** Rename in place: Enter keeps the new name, Escape and leaving the field the old one. */
function edit(card, name, label) {
  const input = make("input", { type: "text", class: "rename", value: label, "aria-label": `New name for ${label}` });
  const done = () => {
    if (!card.classList.contains("editing")) return;
    card.classList.remove("editing");
    input.replaceWith(name);
  };
  input.addEventListener("blur", done);
  input.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    const wish = input.value.trim();
    done();
    const changed = event.key === "Enter" && wish && wish !== label && (await rename(label, wish));
    if (changed) changes.addEventListener("changed", () => focusRename(cards.get(wish)), { once: true });
    else focusRename(card);
  });
  card.classList.add("editing");
  name.replaceWith(input);
  input.select();
  input.focus();
}

const focusRename = (card) => card?.querySelectorAll(".card-actions button")[1].focus();
