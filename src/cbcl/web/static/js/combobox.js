// @ts-check
// A text field that offers the names known: type, arrows, Enter; any other text is as good.

import { make } from "./dom.js";
import { askAboutSpelling } from "./spelling_question.js";
import { say } from "./words.js";

/** @typedef {{ input: HTMLInputElement, list: HTMLElement, names: () => string[] }} Combobox */

const MAX_OPTIONS = 50;
let boxes = 0;

/**
 * Offer names under a text field.
 * @param {HTMLInputElement} input
 * @param {() => string[]} names
 */
export function setUpCombobox(input, names) {
  boxes += 1;
  const attributes = { role: "listbox", id: `offers-${boxes}`, "aria-label": say("names") };
  const list = make("ul", { ...attributes, class: "panel offers", hidden: true });
  input.parentElement?.append(list);
  input.role = "combobox";
  input.ariaAutoComplete = "list";
  input.ariaExpanded = "false";
  input.setAttribute("aria-controls", list.id);
  const box = { input, list, names };
  askAboutSpelling(input);
  input.addEventListener("input", () => open(box));
  input.addEventListener("click", () => open(box));
  input.addEventListener("blur", () => close(box));
  input.addEventListener("keydown", (event) => onKey(box, event));
  // The field keeps the focus.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", ({ target }) => {
    if (target instanceof Element) choose(box, target.closest("[role=option]"));
  });
}

/**
 * List the names that begin with what was typed, then those that contain it.
 * @param {string[]} names
 * @param {string} text
 */
export function matchNames(names, text) {
  const typed = text.trim().toLocaleLowerCase();
  const containing = names.filter((name) => name.toLocaleLowerCase().includes(typed));
  const begins = (/** @type {string} */ name) => name.toLocaleLowerCase().startsWith(typed);
  return [...containing.filter(begins), ...containing.filter((name) => !begins(name))];
}

/** @param {Combobox} box */
function open(box) {
  const matches = matchNames(box.names(), box.input.value).slice(0, MAX_OPTIONS);
  const complete = matches.length === 1 && matches[0] === box.input.value.trim();
  const options = matches.map((name, index) =>
    make(
      "li",
      { role: "option", id: `${box.list.id}-${index}`, "aria-selected": "false", dir: "auto" },
      name,
    ),
  );
  box.list.replaceChildren(...options);
  expand(box, matches.length > 0 && !complete);
}

/** @param {Combobox} box */
const close = (box) => expand(box, false);

/** @param {Combobox} box @param {boolean} yes */
function expand(box, yes) {
  box.list.hidden = !yes;
  box.input.setAttribute("aria-expanded", String(yes));
  if (!yes) box.input.removeAttribute("aria-activedescendant");
}

/** @param {Combobox} box @param {KeyboardEvent} event */
function onKey(box, event) {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const option = selectedOption(box);
  if (move) {
    event.preventDefault();
    if (box.list.hidden) open(box);
    moveSelection(box, move);
  } else if (event.key === "Enter" && option) {
    event.preventDefault();
    choose(box, option);
  } else if (event.key === "Enter") {
    close(box);
  } else if (event.key === "Escape" && !box.list.hidden) {
    event.preventDefault();
    event.stopPropagation();
    close(box);
  }
}

/** @param {Combobox} box */
const selectedOption = (box) =>
  box.list.hidden ? null : box.list.querySelector("[aria-selected=true]");

/** @param {Combobox} box @param {number} move 1: down, -1: up */
function moveSelection(box, move) {
  const options = [...box.list.children];
  if (!options.length) return;
  const now = options.findIndex((option) => option === selectedOption(box));
  const from = now < 0 && move < 0 ? 0 : now; // up from nothing is the last
  const next = (from + move + options.length) % options.length;
  options.forEach((node, index) => node.setAttribute("aria-selected", String(index === next)));
  box.input.setAttribute("aria-activedescendant", options[next].id);
  options[next].scrollIntoView({ block: "nearest" });
}

/** @param {Combobox} box @param {Element | null} option */
function choose(box, option) {
  if (!option) return;
  box.input.value = option.textContent ?? "";
  close(box);
}
