// @ts-check
// Makes and finds the nodes of the page; words from outside become text, never markup.

/** @import { Elements } from "./types.d.ts" */
/** @typedef {Node | string | null | undefined | false} Child */

/**
 * Return the element of this id.
 * @type {<K extends string>(id: K) => K extends keyof Elements ? Elements[K] : HTMLElement}
 */
// @ts-expect-error: tests/page/test_markup.py checks that each id exists, and is of its class
export const find = (id) => document.getElementById(id);

/** Tell whether this link is to look only, as the server says in the page. */
export const isLookOnly = () => document.documentElement.dataset.access === "view";

/**
 * Make a node with attributes, listeners (onclick: …) and children; null and false are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, unknown>} attributes
 * @param {(Child | Child[])[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/**
 * Make one of the icons that index.html defines.
 * @param {string} name
 */
export function icon(name) {
  const namespace = "http://www.w3.org/2000/svg";
  const drawing = document.createElementNS(namespace, "svg");
  drawing.setAttribute("class", "icon");
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(namespace, "use");
  use.setAttribute("href", `#icon-${name}`);
  drawing.append(use);
  return drawing;
}

/**
 * Make a button with words on it.
 * @param {Child | Child[]} words
 * @param {(event: Event) => unknown} onclick
 */
export function button(words, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, words);
}

/**
 * Make a button with an icon; its name is for screen readers and for who rests on it.
 * @param {string} name
 * @param {string} drawing
 * @param {(event: Event) => unknown} onclick
 */
export function iconButton(name, drawing, onclick, attributes = {}) {
  const given = { class: "icon-button", "aria-label": name, title: name, ...attributes };
  return button(icon(drawing), onclick, given);
}

/**
 * Split a text into nodes in which what stands between backticks is code.
 * @param {string} text
 */
export const withCode = (text) =>
  text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

/**
 * Fill a bar up to a number from 0 to 1.
 * @param {Element} bar
 * @param {number} number
 */
export function fillBar(bar, number) {
  const inner = /** @type {HTMLElement} */ (bar.firstElementChild);
  inner.style.transform = `scaleX(${Math.min(1, Math.max(0, number))})`;
}

/** @param {number} example */
export const thumbnailUrl = (example) => `/api/examples/${example}/thumbnail${another}`;

let another = ""; // part of the address that is another one in another memory

/** Take no thumbnail that was seen before for one of the memory that is open now. */
export const renewThumbnails = () => (another = `?${Date.now()}`);

/**
 * Make a picture that is loaded when it comes into sight.
 * @param {string} src
 */
export function lazyImage(src, alt = "") {
  const size = { width: 112, height: 112 };
  const manner = { loading: "lazy", decoding: "async", draggable: "false" };
  return make("img", { class: "thumb", src, alt, ...size, ...manner });
}

/**
 * Show a picture in an image, unless it does so already.
 * @param {HTMLImageElement} image
 * @param {string} src
 */
export function setSource(image, src) {
  if (image.getAttribute("src") === src) return;
  image.src = src;
  image.classList.remove("blank");
}

/** @type {{ letter: HTMLElement, label: string, example: number }[]} */
const failed = []; // pictures of examples that a letter stands for

/**
 * Make a picture of an example; the initial of the label where there is none.
 * @param {string} label
 * @param {number | null | undefined} example
 */
export function exampleImage(label, example) {
  if (example === undefined || example === null) return initial(label);
  const image = lazyImage(thumbnailUrl(example));
  const replace = () => {
    const letter = initial(label);
    image.replaceWith(letter);
    failed.push({ letter, label, example });
  };
  image.addEventListener("error", replace, { once: true });
  return image;
}

/** Load the pictures again that could not be had while the server was away. */
export function retryExampleImages() {
  for (const { letter, label, example } of failed.splice(0)) {
    if (letter.isConnected) letter.replaceWith(exampleImage(label, example));
  }
}

/**
 * Make a box with the first letter of a label, on a colour of its own.
 * @param {string} label
 */
function initial(label) {
  const letter = [...label.trim()][0]?.toUpperCase() ?? "?";
  const node = make("span", { class: "thumb letter", "aria-hidden": "true" }, letter);
  const hash = (/** @type {number} */ sum, /** @type {string} */ sign) =>
    (sum * 31 + (sign.codePointAt(0) ?? 0)) % 360;
  node.style.setProperty("--hue", String([...label].reduce(hash, 7)));
  return node;
}

/** @param {number} milliseconds */
export const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/**
 * Load what was chosen on this machine before; private windows may have nowhere to keep it.
 * @param {string} key
 * @returns {any}
 */
export function loadSetting(key, fallback = /** @type {unknown} */ (null)) {
  try {
    return JSON.parse(localStorage.getItem(`cbcl:${key}`) ?? "null") ?? fallback;
  } catch {
    return fallback;
  }
}

/**
 * Keep a choice on this machine.
 * @param {string} key
 * @param {unknown} value
 */
export function saveSetting(key, value) {
  try {
    localStorage.setItem(`cbcl:${key}`, JSON.stringify(value));
  } catch {
    // It holds until the page is closed, then.
  }
}
