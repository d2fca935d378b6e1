// Makes and finds the nodes of the page; words from outside become text, never markup.

export const find = (id) => document.getElementById(id);

/** A node with attributes, listeners (onclick: …) and children: nodes or text; null and false are left out. */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** One of the drawings that index.html holds. */
export function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(space, "svg");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(space, "use");
  use.setAttribute("href", `#icon-${name}`);
  drawing.append(use);
  return drawing;
}

/** A button with words on it. */
export function button(words, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, words);
}

/** A button with a drawing; its name is for screen readers and for who rests on it. */
export function iconButton(name, drawing, onclick, attributes = {}) {
  return button(icon(drawing), onclick, { class: "icon-button", "aria-label": name, title: name, ...attributes });
}

/** 0.724 is 72%, rounded as the command line does it: halves to the even. */
export function percent(number) {
  const hundredths = number * 100;
  const below = Math.floor(hundredths);
  const odd = below % 2 === 1;
  return `${hundredths - below === 0.5 ? below + (odd ? 1 : 0) : Math.round(hundredths)}%`;
}

/** "1 picture", "3 pictures". */
export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Text in which what stands between backticks is code. */
export const words = (text) => text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));

/** A bar as long as the number says, from 0 to 1. */
export function fill(bar, number) {
  bar.firstElementChild.style.transform = `scaleX(${Math.min(1, Math.max(0, number))})`;
}

export const thumbnail = (example) => `/api/examples/${example}/thumbnail`;

/** A picture that is loaded when it comes into sight. */
export function photo(src, alt = "") {
  return make("img", { src, alt, width: 112, height: 112, loading: "lazy", decoding: "async", draggable: "false" });
}

/** A picture of an example; a letter where there is none. */
export function portrait(label, example, alt = "") {
  if (example === undefined || example === null) return letter(label);
  const image = photo(thumbnail(example), alt);
  image.addEventListener("error", () => image.replaceWith(letter(label)), { once: true });
  return image;
}

/** The first letter of a label on a colour of its own. */
export function letter(label) {
  const node = make("span", { class: "letter", "aria-hidden": "true" }, [...label.trim()][0]?.toUpperCase() ?? "?");
  const hue = [...label].reduce((sum, sign) => (sum * 31 + sign.codePointAt(0)) % 360, 7);
  node.style.setProperty("--hue", hue);
  return node;
}

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** What was chosen on this machine before; private windows may have nowhere to keep it. */
export function recall(key, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(`cbcl:${key}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem(`cbcl:${key}`, JSON.stringify(value));
  } catch {
    // It holds until the page is closed, then.
  }
}
