// Carries memories: takes in all that another memory file knows. (Taking one away is a plain download.)

import { form, get, post } from "./api.js";
import { sayUndoable } from "./editing.js";
import { find } from "./dom.js";
import { memory, reached } from "./memory.js";
import { attempt, close, say } from "./toasts.js";

export function setUpCarrying() {
  find("import").addEventListener("click", () => find("import-file").click());
  find("import-file").addEventListener("change", (event) => {
    find("menu").hidePopover();
    [...event.target.files].forEach(learnFrom);
    event.target.value = "";
  });
  find("menu").addEventListener("toggle", () => {
    find("export").download = memory.name;
  });
}

/** Learn all that another memory knows. */
export async function learnFrom(file) {
  const waiting = say(`Reading ${file.name}…`);
  const told = await attempt(() => post("/api/import", form({ memory: { blob: file, name: file.name } })));
  close(waiting);
  if (!told) return;
  reached(told.revision);
  sayUndoable(summary(file.name, told), told.revision);
}

function summary(name, { added, joined }) {
  if (!added.length && !joined.length) return `${name} knows nothing.`;
  const parts = [`Learned from ${name}.`];
  if (added.length) parts.push(`New: ${some(added)}.`);
  if (joined.length) parts.push(`More of: ${some(joined)}.`);
  return parts.join(" ");
}

function some(labels) {
  if (labels.length <= 5) return labels.join(", ");
  return `${labels.slice(0, 4).join(", ")} and ${labels.length - 4} others`;
}

export async function showVersion() {
  const told = await attempt(() => get("/api/version"));
  if (told) find("version").textContent = `cbcl ${told.cbcl}`;
}
