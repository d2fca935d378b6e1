// @ts-check
// Photos that cbcl watch was not sure of: they come into the tray, and leave the server's folder
// when they are named or removed here.

import { deleteFromInbox, get } from "./api.js";
import { connectionEvents, connectionState } from "./connection.js";
import { isLookOnly } from "./dom.js";
import { addInboxPictures, removeInboxPictures, trayEvents } from "./tray.js";

const LOOK_MS = 15_000; // between two looks at the folder
/** @type {Set<string>} */
const known = new Set(); // names of photos that are in the tray, or have left it
/** @type {number | undefined} */
let timer;

export function setUpInbox() {
  connectionEvents.addEventListener("back", () => {
    clearInterval(timer);
    timer = setInterval(look, LOOK_MS);
    look();
  });
  trayEvents.addEventListener("left", (event) => {
    for (const name of /** @type {CustomEvent} */ (event).detail) {
      deleteFromInbox(name).catch(() => known.delete(name)); // it comes again with the next look
    }
  });
}

/** Take up new photos; those that others have named or removed leave. */
async function look() {
  if (!connectionState.connected || document.hidden || isLookOnly()) return;
  try {
    const { photos, watched } = await get("/api/inbox");
    if (!watched) return clearInterval(timer); // a server has an inbox from its start, or none
    removeInboxPictures([...known].filter((name) => !photos.includes(name)));
    const fresh = photos.filter((name) => !known.has(name));
    fresh.forEach((name) => known.add(name));
    addInboxPictures((await Promise.all(fresh.map(read))).flat());
  } catch {
    // The server may be gone: the next look tells.
  }
}

/** @param {string} name */
async function read(name) {
  const response = await fetch(`/api/inbox/${encodeURIComponent(name)}`);
  if (response.ok) return [new File([await response.blob()], name)];
  known.delete(name);
  return [];
}
