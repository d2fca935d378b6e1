// Takes pictures in: dropped or pasted anywhere on the page, picked from a list, or taken with a phone.

import { find } from "./dom.js";

/** add(files) gets the pictures, learnFrom(file) a memory that was dropped among them. */
export function setUpIntake(add, learnFrom) {
  const take = (files) => {
    const memories = files.filter((file) => file.name.endsWith(".cbcl"));
    memories.forEach(learnFrom);
    add(files.filter((file) => !memories.includes(file)));
  };
  for (const id of ["pick", "photo"]) {
    find(id).addEventListener("change", (event) => {
      add([...event.target.files]);
      event.target.value = ""; // so that the same can be picked again
    });
  }
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (!files.length) return;
    event.preventDefault();
    add(files);
  });
  setUpDrop(take);
}

function setUpDrop(take) {
  let depth = 0; // drags enter and leave every node on their way
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  const show = (change) => {
    depth = Math.max(0, depth + change);
    find("drop").hidden = depth === 0;
  };
  document.addEventListener("dragenter", (event) => holdsFiles(event) && show(1));
  document.addEventListener("dragleave", (event) => holdsFiles(event) && show(-1));
  document.addEventListener("dragover", (event) => holdsFiles(event) && event.preventDefault());
  document.addEventListener("drop", async (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    show(-depth);
    take(await dropped(event.dataTransfer));
  });
}

/** The files dropped, and all pictures in the folders dropped. */
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = [...transfer.files];
  if (!entries.some((entry) => entry.isDirectory)) return files;
  return (await Promise.all(entries.map(filesOf))).flat();
}

async function filesOf(entry, at, entries, inside = false) {
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    const picture = file.type.startsWith("image/") || /\.hei[cf]$/i.test(file.name);
    return !inside || (picture && !file.name.startsWith(".")) ? [file] : [];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)); // a hundred at a time
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map((one, index) => filesOf(one, index, found, true)))).flat();
}
