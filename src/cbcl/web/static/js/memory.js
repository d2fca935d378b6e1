// What the page knows of the memory; it follows every change, whoever made it.

import { get } from "./api.js";

export const memory = { name: "", revision: null, private: false, labels: [], undo: null };

/** Tells of "changed" once the new state is here. */
export const changes = new EventTarget();

let running = null;
let stale = false;

/** Read the state again; calls while it is being read are one more reading after it. */
export function refresh() {
  if (running) {
    stale = true;
    return running;
  }
  running = read().finally(() => {
    running = null;
    if (stale) {
      stale = false;
      refresh().catch(() => {}); // whoever called sees the first reading; a server that is gone is told of elsewhere
    }
  });
  return running;
}

async function read() {
  const told = await get("/api/labels");
  Object.assign(memory, told);
  changes.dispatchEvent(new Event("changed"));
}

/** The memory is at this revision: read it again if that is news. */
export function reached(revision) {
  if (revision !== memory.revision) refresh().catch(() => {});
}

export const names = () => memory.labels.map((thing) => thing.label);
export const thing = (label) => memory.labels.find((one) => one.label === label);
