// @ts-check
// Export and import of memories: export is a plain download, import adds all that a file knows.

import { formData, get, post } from "./api.js";
import { find } from "./dom.js";
import { notifyUndoable } from "./editing.js";
import { memory, syncTo } from "./memory.js";
import { attempt, closeToast, notify } from "./toasts.js";

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
  const waiting = notify(`Reading ${file.name}…`);
  const form = formData({ memory: { blob: file, name: file.name } });
  const result = await attempt(() => post("/api/import", form));
  closeToast(waiting);
  if (!result) return;
  syncTo(result.revision);
  notifyUndoable(summarize(file.name, result.added, result.joined), result.revision);
}

/** @param {string} name @param {string[]} added @param {string[]} joined */
function summarize(name, added, joined) {
  if (!added.length && !joined.length) return `${name} knows nothing.`;
  const parts = [`Learned from ${name}.`];
  if (added.length) parts.push(`New: ${listLabels(added)}.`);
  if (joined.length) parts.push(`More of: ${listLabels(joined)}.`);
  return parts.join(" ");
}

/** @param {string[]} labels */
function listLabels(labels) {
  if (labels.length <= MAX_NAMED) return labels.join(", ");
  const named = labels.slice(0, MAX_NAMED - 1);
  return `${named.join(", ")} and ${labels.length - named.length} others`;
}

export async function showVersion() {
  const version = await attempt(() => get("/api/version"));
  if (version) find("version").textContent = `cbcl ${version.cbcl}`;
}
