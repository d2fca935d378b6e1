// @ts-check
// Draws what can be done to many photos of the tray at once: learn folders, name those that look
// alike, confirm guesses, remove those that are known; and what is wrong with some of them.

import { AlikeRow } from "./alike_row.js";
import { button, find, icon, iconButton, lazyImage, make, setSource } from "./dom.js";
import { labelNames } from "./memory.js";
import {
  alikeOf, foldersOf, groupProblems, groupsOf, keysOf, knownOf, maybeOf,
} from "./tray_state.js";
import { say, sayNodes } from "./words.js";

/** @import { Problem, TrayPicture } from "./types.d.ts" */
/** @import { Tray } from "./tray_state.js" */

const MAX_FOLDERS = 12; // that are listed
const MIN_KNOWN = 2; // photos, from which on they can be removed together

/**
 * What one does with many photos, by their keys.
 * @typedef {object} OfferActions
 * @property {(label: string, keys: number[]) => Promise<boolean>} accept
 * @property {(key: number, label: string) => void} deny
 * @property {() => void} endQuestions
 * @property {() => void} learnFolders
 * @property {() => void} dropFolders
 * @property {(keys: number[]) => void} discardMany
 * @property {(problems: Problem[]) => void} dismiss
 */

/**
 * A row that is kept as long as its id is there, so that focus and what is typed stay.
 * @typedef {object} Row
 * @property {HTMLElement} node
 * @property {(offer: any, busy: boolean) => void} draw
 */

/** @typedef {{ id: string, make: (actions: OfferActions) => Row, offer: unknown }} Wanted */

/** @type {Map<string, Row>} */
const offerRows = new Map();
/** @type {Map<string, Row>} */
const problemRows = new Map();

/** @param {Tray} tray @param {OfferActions} actions */
export function drawOffers(tray, actions) {
  const busy = tray.learning.length > 0;
  const [maybe] = maybeOf(tray);
  const folders = foldersOf(tray, labelNames());
  const known = knownOf(tray);
  /** @type {Wanted[]} */
  const wanted = [
    ...(folders.length ? [{ id: "folders", make: makeFolderRow, offer: folders }] : []),
    ...(maybe ? [{ id: "maybe", make: makeMaybeRow, offer: [maybe, tray.taught] }] : []),
    ...groupsOf(tray).map((group) => ({ id: `sure:${group[0]}`, make: makeSureRow, offer: group })),
    ...alikeOf(tray).map((group) => ({
      id: `alike:${group.id}`,
      make: () => new AlikeRow(actions.accept),
      offer: group.pictures,
    })),
    ...(known.length >= MIN_KNOWN ? [{ id: "known", make: makeKnownRow, offer: known }] : []),
  ];
  place(find("groups"), offerRows, wanted, busy, actions);
  const problems = groupProblems(tray.problems);
  const told = problems.map((group) => ({ id: group.kind, make: makeProblemRow, offer: group }));
  place(find("problems"), problemRows, told, busy, actions);
  find("dismiss-all").hidden = problems.length < 2;
  find("dismiss-all").onclick = () => actions.dismiss(tray.problems);
}

/**
 * Put the rows of a list in their order; those that stay are moved only if they have to be.
 * @param {HTMLElement} list
 * @param {Map<string, Row>} rows
 * @param {Wanted[]} wanted
 * @param {boolean} busy
 * @param {OfferActions} actions
 */
function place(list, rows, wanted, busy, actions) {
  const ids = new Set(wanted.map(({ id }) => id));
  for (const [id, { node }] of rows) {
    if (ids.has(id)) continue;
    node.remove();
    rows.delete(id);
  }
  for (const [at, { id, make: build, offer }] of wanted.entries()) {
    const row = rows.get(id) ?? build(actions);
    rows.set(id, row);
    row.draw(offer, busy);
    if (list.children[at] !== row.node) list.insertBefore(row.node, list.children[at] ?? null);
  }
}

/**
 * Names of folders: "cup 4, lamp 4", and one button to learn all.
 * @param {OfferActions} actions
 * @returns {Row}
 */
function makeFolderRow({ learnFolders, dropFolders }) {
  const words = make("p");
  const names = make("ul", { class: "chips" });
  const learn = button("", learnFolders, { class: "primary digits" });
  const no = button(say("tray.folders_no"), dropFolders, { class: "plain" });
  const actions = make("div", { class: "row" }, learn, no);
  const node = make("li", { class: "tray-offer folders" }, words, names, actions);
  return {
    node,
    /** @param {[label: string, pictures: TrayPicture[]][]} folders */
    draw(folders, busy) {
      const count = folders.reduce((sum, [, pictures]) => sum + pictures.length, 0);
      words.textContent = say("tray.folders", { count: folders.length });
      const chips = folders.slice(0, MAX_FOLDERS).map(([label, pictures]) => {
        const values = { label: make("bdi", {}, label), number: pictures.length };
        return make("li", { class: "chip" }, sayNodes("tray.folder", values));
      });
      const more = folders.length - MAX_FOLDERS;
      if (more > 0) chips.push(make("li", {}, say("tray.folders_more", { count: more })));
      names.replaceChildren(...chips);
      learn.textContent = say("tray.folders_learn", { count });
      learn.disabled = no.disabled = busy;
    },
  };
}

/**
 * One photo that might show what was just taught: yes, or no.
 * @param {OfferActions} actions
 * @returns {Row}
 */
function makeMaybeRow({ accept, deny, endQuestions }) {
  let key = 0;
  let label = "";
  const image = lazyImage("");
  const words = make("p");
  const small = { class: "small" };
  const yes = button([icon("check"), say("answer.yes")], () => accept(label, [key]), small);
  const no = button(say("no"), () => deny(key, label), small);
  const end = iconButton(say("dismiss"), "close", endQuestions);
  const node = make("li", { class: "tray-offer maybe row" }, image, words, yes, no, end);
  return {
    node,
    /** @param {[TrayPicture, string]} offer */
    draw([picture, taught], busy) {
      key = picture.key;
      label = taught;
      setSource(image, picture.url);
      image.alt = picture.name;
      words.replaceChildren(...sayNodes("tray.maybe", { label: make("bdi", {}, label) }));
      yes.disabled = no.disabled = busy;
    },
  };
}

/**
 * Photos that look like a thing for sure.
 * @param {OfferActions} actions
 * @returns {Row}
 */
function makeSureRow({ accept }) {
  let label = "";
  /** @type {number[]} */
  let keys = [];
  const words = make("span");
  const yes = button([icon("check"), say("tray.group_yes")], () => accept(label, keys), {
    class: "small",
  });
  return {
    node: make("li", { class: "row" }, words, yes),
    /** @param {[label: string, pictures: TrayPicture[]]} group */
    draw(group, busy) {
      label = group[0];
      keys = keysOf(group[1]);
      const count = keys.length;
      words.replaceChildren(...sayNodes("tray.group", { count, label: make("bdi", {}, label) }));
      yes.setAttribute("aria-label", say("tray.group_yes_label", { count, label }));
      yes.disabled = busy;
    },
  };
}

/**
 * Photos that are known already.
 * @param {OfferActions} actions
 * @returns {Row}
 */
function makeKnownRow({ discardMany }) {
  /** @type {number[]} */
  let keys = [];
  const words = make("span");
  const looks = { class: "small plain" };
  const remove = button(say("tray.known_remove"), () => discardMany(keys), looks);
  return {
    node: make("li", { class: "row known" }, words, remove),
    /** @param {TrayPicture[]} pictures */
    draw(pictures, busy) {
      keys = keysOf(pictures);
      words.textContent = say("tray.known_many", { count: keys.length });
      remove.disabled = busy;
    },
  };
}

/**
 * Photos that cannot be used for the same reason.
 * @param {OfferActions} actions
 * @returns {Row}
 */
function makeProblemRow({ dismiss }) {
  /** @type {Problem[]} */
  let told = [];
  const words = make("span", { dir: "auto" });
  const names = make("ul");
  const which = make("details", {}, make("summary", {}, say("tray.problem_which")), names);
  const close = iconButton(say("dismiss"), "close", () => dismiss(told));
  return {
    node: make("li", { class: "row" }, make("div", {}, words, which), close),
    /** @param {{ reason: string, problems: Problem[] }} group */
    draw({ reason, problems }) {
      told = problems;
      const count = problems.length;
      const [{ picture, message }] = problems;
      const named = message.includes(picture) ? message : say("tray.problem", { picture, message });
      words.textContent = count > 1 ? say("tray.problem_many", { count, reason }) : named;
      which.hidden = count === 1;
      names.replaceChildren(
        ...problems.map((problem) => make("li", { dir: "auto" }, problem.picture)),
      );
    },
  };
}
