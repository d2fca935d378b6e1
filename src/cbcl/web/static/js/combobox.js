// A text field that offers the names known: type, arrows, Enter; any other text is as good.

import { make } from "./dom.js";

const MOST = 50;
let made = 0;

/** Offer names() under the field. */
export function offer(input, names) {
  made += 1;
  const id = `offers-${made}`;
  const list = make("ul", { role: "listbox", id, class: "offers", hidden: true, "aria-label": "Names known" });
  input.parentElement.append(list);
  input.role = "combobox";
  input.ariaAutoComplete = "list";
  input.ariaExpanded = "false";
  input.setAttribute("aria-controls", list.id);
  const box = { input, list, names };
  input.addEventListener("input", () => open(box));
  input.addEventListener("click", () => open(box));
  input.addEventListener("blur", () => close(box));
  input.addEventListener("keydown", (event) => onKey(box, event));
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => choose(box, event.target.closest("[role=option]")));
}

/** Names that begin with what was typed, then those that contain it. */
export function matching(names, text) {
  const typed = text.trim().toLocaleLowerCase();
  const found = names.filter((name) => name.toLocaleLowerCase().includes(typed));
  const begins = (name) => name.toLocaleLowerCase().startsWith(typed);
  return [...found.filter(begins), ...found.filter((name) => !begins(name))];
}

function open(box) {
  const found = matching(box.names(), box.input.value).slice(0, MOST);
  const only = found.length === 1 && found[0] === box.input.value.trim();
  box.list.replaceChildren(...found.map((name, at) => option(name, `${box.list.id}-${at}`)));
  expand(box, found.length > 0 && !only);
}

const option = (name, id) => make("li", { role: "option", id, "aria-selected": "false", dir: "auto" }, name);

const close = (box) => expand(box, false);

function expand(box, yes) {
  box.list.hidden = !yes;
  box.input.setAttribute("aria-expanded", String(yes));
  if (!yes) box.input.removeAttribute("aria-activedescendant");
}

function onKey(box, event) {
  const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (move) {
    event.preventDefault();
    if (box.list.hidden) open(box);
    highlight(box, move);
  } else if (event.key === "Enter" && chosen(box)) {
    event.preventDefault();
    choose(box, chosen(box));
  } else if (event.key === "Enter") {
    close(box);
  } else if (event.key === "Escape" && !box.list.hidden) {
    event.preventDefault();
    event.stopPropagation();
    close(box);
  }
}

const chosen = (box) => (box.list.hidden ? null : box.list.querySelector("[aria-selected=true]"));

function highlight(box, move) {
  const options = [...box.list.children];
  if (!options.length) return;
  const now = options.indexOf(chosen(box));
  const next = now < 0 ? (move > 0 ? 0 : options.length - 1) : (now + move + options.length) % options.length;
  options.forEach((node, at) => node.setAttribute("aria-selected", String(at === next)));
  box.input.setAttribute("aria-activedescendant", options[next].id);
  options[next].scrollIntoView({ block: "nearest" });
}

function choose(box, picked) {
  if (!picked) return;
  box.input.value = picked.textContent;
  close(box);
}
