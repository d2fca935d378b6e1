// @ts-check
// Export and import of memories: export is a plain download, import adds all that a file knows.

import { formData, post } from "./api.js";
import { find } from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { memory, syncTo } from "./memory.js";
import { findMemoryProblem } from "./memory_file.js";
import { attempt, closeToast, notify, notifyError } from "./toasts.js";
import { say } from "./words.js";

const MAX_NAMED = 5; // labels in a message

export function setUpExchange() {
  const input = find("import-file");
  find("import").addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    find("menu").hidePopover();
    [...(input.files ?? [])].forEach(importMemory);
    input.value = "";
  });
  find("menu").addEventListener("toggle", () => {
    find("export").download = memory.name;
  });
}

/**
 * Learn all that another memory knows.
 * @param {File} file
 */
export async function importMemory(file) {
  const problem = await findMemoryProblem(file);
  if (problem) return void notifyError(problem);
  const waiting = notify(say("import.reading", { name: file.name }));
  const form = formData({ memory: { blob: file, name: file.name } });
  const result = await attempt(() => post("/api/import", form));
  closeToast(waiting);
  if (!result) return;
  syncTo(result.revision);
  notifyUndoable(summarize(file.name, result.added, result.joined), result.revision);
}

/** @param {string} name @param {string[]} added @param {string[]} joined */
function summarize(name, added, joined) {
  if (!added.length && !joined.length) return say("import.nothing", { name });
  const parts = [say("import.done", { name })];
  if (added.length) parts.push(say("import.added", { labels: listLabels(added) }));
  if (joined.length) parts.push(say("import.joined", { labels: listLabels(joined) }));
  return parts.join(" ");
}

/** @param {string[]} labels */
function listLabels(labels) {
  if (labels.length <= MAX_NAMED) return labels.join(", ");
  const named = labels.slice(0, MAX_NAMED - 1);
  return say("import.others", { labels: named.join(", "), count: labels.length - named.length });
}
