// @ts-check
// Files from outside: dropped or pasted anywhere, picked from a list, or taken with a phone.

import { find } from "./dom.js";

/**
 * Hand pictures to add, and memories that were dropped among them to importMemory.
 * @param {(files: File[]) => void} add
 * @param {(file: File) => void} importMemory
 */
export function setUpFileInput(add, importMemory) {
  for (const input of [find("pick"), find("photo")]) {
    input.addEventListener("change", () => {
      add([...(input.files ?? [])]);
      input.value = ""; // so that the same can be picked again
    });
  }
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    const pictures = files.filter((file) => file.type.startsWith("image/"));
    if (!pictures.length) return;
    event.preventDefault();
    add(pictures);
  });
  setUpDrop((files) => {
    const memories = files.filter((file) => file.name.endsWith(".cbcl"));
    memories.forEach(importMemory);
    add(files.filter((file) => !memories.includes(file)));
  });
}

/** @param {(files: File[]) => void} take */
function setUpDrop(take) {
  let depth = 0; // drags enter and leave every node on their way
  const holdsFiles = (/** @type {DragEvent} */ event) =>
    event.dataTransfer?.types.includes("Files");
  const show = (/** @type {number} */ change) => {
    depth = Math.max(0, depth + change);
    find("drop").hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => holdsFiles(event) && show(1));
  document.addEventListener("dragleave", (event) => holdsFiles(event) && show(-1));
  document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  document.addEventListener("drop", async (event) => {
    if (!event.dataTransfer || !holdsFiles(event)) return;
    event.preventDefault();
    show(-depth);
    take(await readDropped(event.dataTransfer));
  });
}

/**
 * List the files dropped, and all pictures in the folders dropped.
 * @param {DataTransfer} transfer
 */
async function readDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...transfer.files]; // both are gone once this function has waited
  if (!entries.some((entry) => entry?.isDirectory)) return files;
  return (await Promise.all(entries.map((entry) => (entry ? filesIn(entry) : [])))).flat();
}

/**
 * @param {FileSystemEntry} entry
 * @param {boolean} inside a folder, where only pictures are taken
 * @returns {Promise<File[]>}
 */
async function filesIn(entry, inside = false) {
  if (entry.isFile) {
    const { file: read } = /** @type {FileSystemFileEntry} */ (entry);
    const file = await new Promise((done, fail) => read.call(entry, done, fail));
    const picture = file.type.startsWith("image/") || /\.hei[cf]$/i.test(file.name);
    return !inside || (picture && !file.name.startsWith(".")) ? [file] : [];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  const children = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const batch = await new Promise((done, fail) => reader.readEntries(done, fail)); // of a hundred
    if (!batch.length) break;
    children.push(...batch);
  }
  return (await Promise.all(children.map((child) => filesIn(child, true)))).flat();
}
