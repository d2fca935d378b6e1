// @ts-check
// A row of unknown photos that look alike: one name for all of them, but for those left out.

import { setUpCombobox } from "./combobox.js";
import { button, lazyImage, make } from "./dom.js";
import { labelNames } from "./memory.js";
import { askAboutSpelling } from "./spelling_question.js";
import { keysOf } from "./tray_state.js";
import { say } from "./words.js";

/** @import { TrayPicture } from "./types.d.ts" */

const MAX_THUMBS = 7; // before one asks for all

export class AlikeRow {
  /** @param {(label: string, keys: number[]) => Promise<boolean>} accept */
  constructor(accept) {
    this.accept = accept;
    /** @type {TrayPicture[]} */
    this.pictures = [];
    /** @type {Map<number, HTMLButtonElement>} */
    this.thumbs = new Map();
    /** @type {Set<number>} */
    this.leftOut = new Set();
    this.isOpen = false;
    this.words = make("p");
    this.strip = make("div", { class: "strip" });
    this.more = button("", () => this.open(), { class: "plain more" });
    this.teach = make("button", { type: "submit", class: "digits" });
    const text = { type: "text", autocapitalize: "off", spellcheck: "false", maxlength: "200" };
    this.name = make("input", { ...text, placeholder: say("tray.alike_name") });
    const field = make("div", { class: "combobox" }, this.name);
    const form = make("form", { class: "row", autocomplete: "off" }, field, this.teach);
    form.addEventListener("submit", (event) => (event.preventDefault(), this.submit()));
    setUpCombobox(this.name, labelNames);
    askAboutSpelling(this.name);
    this.node = make("li", { class: "tray-offer lookalikes" }, this.words, this.strip, form);
  }

  /** @param {TrayPicture[]} pictures @param {boolean} busy */
  draw(pictures, busy) {
    this.pictures = pictures;
    const count = this.taken().length;
    const hidden = this.isOpen ? 0 : pictures.length - MAX_THUMBS;
    const thumbs = pictures.slice(0, hidden > 0 ? MAX_THUMBS : undefined);
    const nodes = [...thumbs.map((picture) => this.thumbOf(picture))];
    if (hidden > 0) nodes.push(this.more);
    this.more.textContent = say("tray.alike_more", { count: hidden });
    this.arrange(nodes);
    this.words.textContent = say("tray.alike", { count: pictures.length });
    this.name.setAttribute("aria-label", say("tray.alike_label", { count: pictures.length }));
    this.teach.textContent = say("tray.teach_count", { count });
    this.teach.disabled = busy || count === 0;
  }

  taken = () => keysOf(this.pictures).filter((key) => !this.leftOut.has(key));

  async submit() {
    const label = this.name.value.trim();
    if (!label || !this.taken().length) this.name.focus();
    else if (await this.accept(label, this.taken())) this.name.value = "";
  }

  open() {
    this.isOpen = true;
    this.draw(this.pictures, false);
    this.thumbs.get(this.pictures[MAX_THUMBS].key)?.focus();
  }

  /** @param {number} key */
  toggle(key) {
    if (!this.leftOut.delete(key)) this.leftOut.add(key);
    this.draw(this.pictures, false);
  }

  /** @param {TrayPicture} picture */
  thumbOf({ key, url, name }) {
    const thumb =
      this.thumbs.get(key) ??
      button(lazyImage(url), () => this.toggle(key), { class: "face-button", "aria-label": name });
    this.thumbs.set(key, thumb);
    const out = this.leftOut.has(key);
    thumb.classList.toggle("out", out);
    thumb.setAttribute("aria-pressed", String(!out));
    thumb.title = say(out ? "tray.alike_in" : "tray.alike_out", { name });
    return thumb;
  }

  /**
   * Show these nodes, moving none that is in its place: what has the focus keeps it.
   * @param {HTMLElement[]} nodes
   */
  arrange(nodes) {
    for (const child of [...this.strip.children]) {
      if (!nodes.includes(/** @type {HTMLElement} */ (child))) child.remove();
    }
    for (const [at, node] of nodes.entries()) {
      if (this.strip.children[at] !== node) {
        this.strip.insertBefore(node, this.strip.children[at] ?? null);
      }
    }
  }
}
