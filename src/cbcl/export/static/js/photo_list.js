// @ts-check
// Photos that were picked, dropped or pasted: each with its answer, one of them shown large.

import { answersShown, drawAnswer, drawWaiting, headlineOf } from "./answer_view.js";
import { find, make } from "./dom.js";
import { photoPixels } from "./pixels.js";
import { kindOf } from "./verdict.js";
import { percent, say } from "./words.js";

/** @import { Answer, AppDescription, Model } from "./app_types.d.ts" */
/** @typedef {{ name: string, url: string, answer: Answer | null, node: HTMLElement }} Photo */

/** The photos; tells of "selected" when another is shown, or none. */
export class PhotoList extends EventTarget {
  /** @param {Model} model @param {AppDescription} app */
  constructor(model, app) {
    super();
    this.model = model;
    this.app = app;
    /** @type {Photo[]} */
    this.photos = [];
    /** @type {Photo | null} */
    this.selected = null;
    this.work = Promise.resolve(); // one photo after the other
  }

  /** @param {File[]} files */
  add(files) {
    const first = this.photos.length;
    for (const file of files) this.addOne(file);
    if (this.photos[first]) this.select(this.photos[first]);
    this.draw();
  }

  /** @param {File} file */
  addOne(file) {
    const url = URL.createObjectURL(file);
    const node = make("li", { "data-kind": "waiting" });
    /** @type {Photo} */
    const photo = { name: file.name, url, answer: null, node };
    node.append(
      make(
        "button",
        { type: "button", "aria-pressed": "false", onclick: () => this.select(photo) },
        make("img", { src: url, alt: "", loading: "lazy" }),
        make("span", { class: "name clip", dir: "auto" }, say("answer.looking")),
        make("span", { class: "quiet digits" }, "\u00a0"),
      ),
    );
    this.photos.push(photo);
    find("photo-list").append(node);
    this.work = this.work.then(() => this.recognize(photo, file));
  }

  /** @param {Photo} photo @param {File} file */
  async recognize(photo, file) {
    if (!this.photos.includes(photo)) return; // removed meanwhile
    const [name, number] = /** @type {HTMLElement[]} */ ([...photo.node.querySelectorAll("span")]);
    try {
      photo.answer = await this.model.recognize(await photoPixels(file, this.app.at_least));
      const isNamed = photo.answer.label !== null;
      photo.node.dataset.kind = kindOf(photo.answer);
      name.textContent = isNamed ? headlineOf(photo.answer) : say("app.unknown");
      if (isNamed) number.textContent = percent(photo.answer.confidence);
    } catch {
      photo.node.dataset.kind = "broken";
      name.textContent = say("app.broken", { name: photo.name });
      photo.node.querySelector("img")?.remove();
    }
    if (this.selected === photo) this.drawSelected();
  }

  /** @param {Photo} photo */
  select(photo) {
    this.selected = photo;
    this.mark();
    this.drawSelected();
  }

  deselect() {
    this.selected = null;
    this.mark();
  }

  clear() {
    for (const { url } of this.photos) URL.revokeObjectURL(url);
    this.photos = [];
    find("photo-list").replaceChildren();
    this.deselect();
    this.draw();
  }

  mark() {
    answersShown.photo = this.selected !== null;
    for (const photo of this.photos) {
      const pressed = String(photo === this.selected);
      photo.node.firstElementChild?.setAttribute("aria-pressed", pressed);
    }
    this.dispatchEvent(new Event("selected"));
  }

  drawSelected() {
    const { selected } = this;
    if (!selected) return;
    if (selected.answer) drawAnswer(selected.answer, this.model);
    else if (selected.node.dataset.kind === "broken") {
      drawWaiting(say("app.broken", { name: selected.name }));
    } else drawWaiting(say("answer.looking"));
  }

  draw() {
    const count = this.photos.length;
    const { lang } = document.documentElement;
    find("photo-count").textContent = count ? count.toLocaleString(lang) : "";
    find("photos-empty").hidden = count > 0;
    find("clear").hidden = count === 0;
  }
}

/** @param {Model} model @param {AppDescription} app */
export function setUpPhotos(model, app) {
  const photos = new PhotoList(model, app);
  const pick = /** @type {HTMLInputElement} */ (find("pick"));
  pick.disabled = false;
  pick.addEventListener("change", () => {
    photos.add([...(pick.files ?? [])]);
    pick.value = ""; // so that the same can be picked again
  });
  find("clear").addEventListener("click", () => photos.clear());
  document.addEventListener("paste", (event) => {
    photos.add(pictures(event.clipboardData));
  });
  setUpDrop(photos);
  return photos;
}

/** @param {PhotoList} photos */
function setUpDrop(photos) {
  const show = (/** @type {boolean} */ shown) => (find("drop").hidden = !shown);
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    show(event.dataTransfer?.types.includes("Files") ?? false);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget ?? show(false));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    show(false);
    photos.add(pictures(event.dataTransfer));
  });
}

/** @param {DataTransfer | null} data */
const pictures = (data) => [...(data?.files ?? [])].filter(({ type }) => type.startsWith("image/"));
