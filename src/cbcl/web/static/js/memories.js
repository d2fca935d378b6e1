// @ts-check
// The memories view: those of the folder, to open, begin, copy and restore; names, never paths.

import { formData, get, post } from "./api.js";
import { openDialog } from "./dialogs.js";
import { button, find, make } from "./dom.js";
import { importMemory } from "./exchange.js";
import { memory, memoryEvents } from "./memory.js";
import { findMemoryProblem } from "./memory_file.js";
import { attempt, closeToast, notify, notifyError } from "./toasts.js";
import { say, sayNodes } from "./words.js";

/** @import { Memories, MemoryEntry } from "./types.d.ts" */

const SUFFIX = /\.cbcl$/;

/** @type {Memories | null} */
let present = null;
/** @type {File | null} */
let backup = null; // that is to take the place of the memory

export function setUpMemories() {
  find("memory-form").addEventListener("submit", (event) => {
    event.preventDefault();
    begin();
  });
  find("memory-new").addEventListener("input", () => showProblem(""));
  onFile(find("memory-add-file"), importMemory);
  onFile(find("memory-restore-file"), askToRestore);
  find("restore-form").addEventListener("submit", restore);
  for (const name of ["opened", "changed"]) {
    memoryEvents.addEventListener(name, () => find("memories").hidden || drawMemories());
  }
}

/** @param {HTMLInputElement} input @param {(file: File) => void} take */
function onFile(input, take) {
  input.addEventListener("change", () => {
    [...(input.files ?? [])].forEach(take);
    input.value = ""; // so that the same can be chosen again
  });
}

export async function drawMemories() {
  present = (await attempt(() => get("/api/memories"))) ?? present;
  if (!present) return;
  const { open, several, memories } = present;
  find("memory-download").download = open;
  find("memory-form").hidden = !several;
  find("memories-alone").hidden = several;
  const command = make("code", {}, "cbcl teach");
  find("memories-alone").replaceChildren(...sayNodes("memories.alone", { command }));
  find("memory-list").replaceChildren(...memories.map((entry) => memoryItem(entry, open, several)));
}

/** @param {MemoryEntry} entry @param {string} open @param {boolean} several */
function memoryItem({ name, things, changed, problem }, open, several) {
  const time = changed && make("time", { datetime: changed }, new Date(changed).toLocaleString());
  const about = problem ?? say("memories.things", { count: things ?? 0 });
  const copy = button(say("memories.duplicate"), () => duplicate(name), {
    class: "small",
    "aria-label": say("memories.duplicate_label", { name }),
  });
  const enter = button(say("memories.open"), () => openMemory(name), {
    class: "small",
    "aria-label": say("memories.open_label", { name }),
  });
  const mark = make("span", { class: "mark next" }, say("memories.is_open"));
  const words = make(
    "span",
    { class: "memory-words" },
    make("strong", { dir: "auto" }, name.replace(SUFFIX, "")),
    make("span", { class: "quiet" }, about, time && " · ", time),
  );
  const actions = name === open ? [mark] : [problem === null && enter];
  const copying = several && problem === null && changed !== null && copy;
  const place = { "aria-current": name === open ? "true" : null };
  return make("li", { class: "panel row memory", ...place }, words, ...actions, copying);
}

/** @param {string} name */
async function openMemory(name) {
  const opened = await attempt(() => post("/api/memories/open", { name }));
  if (opened) notify(say("memories.opened", { name: opened.memory }));
}

/** Begin a new memory, and open it. */
async function begin() {
  const field = find("memory-new");
  const name = field.value.trim();
  if (!name) return showProblem(say("memories.no_name"));
  const isTold = (/** @type {Error} */ error) => (showProblem(error.message), true);
  const opened = await attempt(() => post("/api/memories", { name }), isTold);
  if (!opened) return;
  field.value = "";
  notify(say("memories.begun", { name: opened.memory }));
}

/** @param {string} text */
function showProblem(text) {
  find("memory-problem").textContent = text;
  find("memory-new").setAttribute("aria-invalid", String(Boolean(text)));
  if (text) find("memory-new").focus();
}

/** @param {string} name */
async function duplicate(name) {
  const taken = present?.memories.map((entry) => entry.name.toLowerCase()) ?? [];
  const stem = name.replace(SUFFIX, "");
  let copy = say("memories.copy", { name: stem });
  for (let number = 2; taken.includes(`${copy}.cbcl`.toLowerCase()); number += 1) {
    copy = say("memories.copy_number", { name: stem, number });
  }
  const made = await attempt(() => post("/api/memories/duplicate", { name, new: copy }));
  if (!made) return;
  notify(say("memories.duplicated", { name, copy: made.memory }));
  await drawMemories();
}

/**
 * Ask whether a file is to replace the memory, if it can be one.
 * @param {File} file
 */
async function askToRestore(file) {
  const problem = await findMemoryProblem(file);
  if (problem) return void notifyError(problem);
  backup = file;
  const names = { name: memory.name, file: file.name };
  find("restore-title").textContent = say("memories.restore_title", names);
  find("restore-words").textContent = say("memories.restore_words", names);
  openDialog("restore-dialog");
  find("restore-cancel").focus();
}

async function restore() {
  const file = backup;
  backup = null;
  if (!file) return;
  const waiting = notify(say("import.reading", { name: file.name }));
  const form = formData({ memory: { blob: file, name: file.name } });
  const done = await attempt(() => post("/api/memories/restore", form));
  closeToast(waiting);
  if (!done) return;
  const { kept } = done;
  const text = say(kept ? "memories.restored" : "memories.restored_new", { kept: kept ?? "" });
  notify(text, { undo: kept ? undoRestore : null });
  await drawMemories();
}

async function undoRestore() {
  const done = await attempt(() => post("/api/memories/undo-restore"));
  if (!done) return;
  notify(say("memories.put_back", { kept: done.kept ?? "" }));
  await drawMemories();
}
