// @ts-check
// Files from outside: dropped or pasted anywhere, picked from a list, or taken with a phone.

import { find } from "./dom.js";

// Folders of cameras (100APPLE, 202405__), and names that are nothing but a date.
const BY_CAMERA = /^(?:\d{3}[a-z0-9_]{5}|\d{6}__|(?:dcim|dsc|img|pxl)[\d_]*|[\d ._-]{6,})$/;
const COUNTER = /[ _-]*\(?\d+\)?$/; // of "New folder (2)"
const NO_THINGS = new Set([
  "album", "desktop", "camera", "camera roll", "download", "downloads", "images", "inbox", "mixed",
  "new", "new folder", "photo", "photos", "pictures", "screenshots", "tmp", "untitled folder",
  "bilder", "fotos", "kamera", "neuer ordner", "schreibtisch",
  "bureau", "nouveau dossier", "téléchargements",
  "cámara", "descargas", "escritorio", "imágenes", "nueva carpeta",
  "التنزيلات", "الكاميرا", "سطح المكتب", "صور", "مجلد جديد",
]);

/**
 * Hand pictures to add, with the names of their folders, and memories that were dropped among them
 * to importMemory.
 * @param {(files: File[], folders?: Map<Blob, string>) => void} add
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
  setUpDrop((files, folders) => {
    const memories = files.filter((file) => file.name.endsWith(".cbcl"));
    memories.forEach(importMemory);
    add(files.filter((file) => !memories.includes(file)), folders);
  });
}

/** @param {(files: File[], folders: Map<Blob, string>) => void} take */
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
    const dropped = await readDropped(event.dataTransfer);
    take(dropped.map(({ file }) => file), nameFolders(dropped));
  });
}

/** @typedef {{ file: File, path: string[] }} DroppedFile path: the folders that it lies in */

/**
 * List the files dropped, and all pictures in the folders dropped.
 * @param {DataTransfer} transfer
 * @returns {Promise<DroppedFile[]>}
 */
async function readDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  const files = [...transfer.files]; // both are gone once this function has waited
  const hasFolders = entries.some((entry) => entry?.isDirectory);
  if (!hasFolders) return files.map((file) => ({ file, path: [] }));
  return (await Promise.all(entries.map((entry) => (entry ? filesIn(entry, []) : [])))).flat();
}

/**
 * @param {FileSystemEntry} entry
 * @param {string[]} path folders around it; inside one, only pictures are taken
 * @returns {Promise<DroppedFile[]>}
 */
async function filesIn(entry, path) {
  if (entry.isFile) {
    const { file: read } = /** @type {FileSystemFileEntry} */ (entry);
    const file = await new Promise((done, fail) => read.call(entry, done, fail));
    const picture = file.type.startsWith("image/") || /\.hei[cf]$/i.test(file.name);
    const isMeant = !path.length || (picture && !file.name.startsWith("."));
    return isMeant ? [{ file, path }] : [];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  const children = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const batch = await new Promise((done, fail) => reader.readEntries(done, fail)); // of a hundred
    if (!batch.length) break;
    children.push(...batch);
  }
  const inner = [...path, entry.name];
  return (await Promise.all(children.map((child) => filesIn(child, inner)))).flat();
}

/**
 * Return the name that its folder gives to each file: of `things/cup/1.jpg` it is cup, whether
 * things was dropped, or cup, or a folder with nothing but things in it. Where all names are such
 * as cameras and systems give, they are none.
 * @param {DroppedFile[]} dropped
 */
export function nameFolders(dropped) {
  /** @type {Map<Blob, string>} */
  const names = new Map();
  const inFolders = dropped.filter(({ path }) => path.length);
  for (const top of new Set(inFolders.map(({ path }) => path[0]))) {
    const files = inFolders.filter(({ path }) => path[0] === top);
    let depth = 1; // of the folder in which names differ, or photos lie
    while (isWrapper(files, depth)) depth += 1;
    const nameIn = (/** @type {string[]} */ path) => path[depth] ?? path[depth - 1];
    if (files.every(({ path }) => isNoThing(nameIn(path)))) continue;
    for (const { file, path } of files) names.set(file, nameIn(path));
  }
  return names;
}

/**
 * Tell whether the name of a folder says nothing of what its photos show.
 * @param {string} name
 */
function isNoThing(name) {
  const plain = name.normalize("NFC").trim().toLowerCase();
  return BY_CAMERA.test(plain) || NO_THINGS.has(plain.replace(COUNTER, ""));
}

/**
 * Tell whether the folder at this depth holds one folder and nothing else.
 * @param {DroppedFile[]} files
 * @param {number} depth
 */
function isWrapper(files, depth) {
  const inner = files[0]?.path[depth];
  // One that holds photos is a thing, even if it is the only one.
  return files.every(({ path }) => path[depth] === inner && path.length > depth + 1);
}
