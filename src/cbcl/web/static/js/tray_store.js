// @ts-check
// Keeps the photos of the tray in the browser until they are taught or removed: IndexedDB. Each tab
// keeps its own; those of a tab that is gone are taken over by the next one that is opened.

/** @import { TrayPicture } from "./types.d.ts" */

const DATABASE = "cbcl";
const STORE = "tray";
const MAX_PICTURES = 600;
const MAX_BYTES = 400e6;
const MAX_AGE_MS = 30 * 24 * 3600e3; // after which nobody comes back for a photo
const ANSWER_MS = 250; // in which other tabs say that they are there

/**
 * A photo as it is kept.
 * @typedef {object} StoredPicture
 * @property {number} id
 * @property {string} memory name of the memory that it is to be taught to
 * @property {string} tab
 * @property {number} time
 * @property {string} name
 * @property {Blob} blob
 * @property {string | null} folder
 */

/** Photos of this tab, for one memory. */
export class TrayStore {
  /** @param {IDBDatabase} database @param {string} memory @param {string} tab */
  constructor(database, memory, tab) {
    this.database = database;
    this.memory = memory;
    this.tab = tab;
    /** @type {Map<number, { id: number, size: number }>} */
    this.kept = new Map(); // by the keys of the photos
    /** @type {Set<number>} */
    this.refused = new Set(); // keys of those that the browser has no room for
    /** @type {TrayPicture[]} */
    this.wanted = [];
    this.isWriting = false;
  }

  /**
   * Return the photos of this tab, and of tabs that are gone, which are this tab's from now on.
   * @param {Set<string>} others tabs that are there
   * @returns {Promise<StoredPicture[]>}
   */
  async load(others) {
    const store = this.open();
    /** @type {StoredPicture[]} */
    const all = await done(store.getAll());
    const latest = all.filter(({ time }) => Date.now() - time < MAX_AGE_MS);
    for (const { id } of all.filter((row) => !latest.includes(row))) store.delete(id);
    const own = latest.filter(({ memory, tab }) => memory === this.memory && !others.has(tab));
    for (const row of own) store.put({ ...row, tab: this.tab });
    await finished(store.transaction);
    return own;
  }

  /**
   * Note that a photo was loaded.
   * @param {number} key
   * @param {StoredPicture} stored
   */
  adopt(key, { id, blob }) {
    this.kept.set(key, { id, size: blob.size });
  }

  /**
   * Keep these photos and no others; tell when it is done.
   * @param {TrayPicture[]} pictures
   * @param {() => void} told
   */
  async keep(pictures, told) {
    this.wanted = pictures;
    if (this.isWriting) return;
    this.isWriting = true;
    while (await this.writeNext());
    this.isWriting = false;
    told();
  }

  /** @param {TrayPicture[]} pictures */
  countLost = (pictures) => pictures.filter(({ key }) => !this.kept.has(key)).length;

  /** @param {TrayPicture[]} pictures */
  isFull = (pictures) => pictures.some(({ key }) => this.refused.has(key));

  async writeNext() {
    const keys = new Set(this.wanted.map(({ key }) => key));
    const gone = [...this.kept].find(([key]) => !keys.has(key));
    if (gone) {
      this.kept.delete(gone[0]);
      await done(this.open().delete(gone[1].id)).catch(() => {});
      return true;
    }
    const next = this.wanted.find(({ key }) => !this.kept.has(key) && !this.refused.has(key));
    if (!next) return false;
    await this.write(next).catch(() => this.refused.add(next.key));
    return true;
  }

  /** @param {TrayPicture} picture */
  async write({ key, name, blob, folder }) {
    const size = [...this.kept.values()].reduce((sum, one) => sum + one.size, blob.size);
    if (this.kept.size >= MAX_PICTURES || size > MAX_BYTES) throw new RangeError("too much");
    const { memory, tab } = this;
    const row = { memory, tab, time: Date.now(), name, blob, folder };
    const store = this.open();
    const id = Number(await done(store.add(row)));
    await finished(store.transaction);
    this.kept.set(key, { id, size: blob.size });
  }

  open() {
    return this.database.transaction(STORE, "readwrite").objectStore(STORE);
  }
}

/**
 * Open the store of a memory, with the photos that it has; null: this browser keeps nothing.
 * @param {string} memory
 * @returns {Promise<{ store: TrayStore, pictures: StoredPicture[] } | null>}
 */
export async function openTrayStore(memory) {
  try {
    const { tab, others } = await meetTabs();
    const request = indexedDB.open(DATABASE, 1);
    request.addEventListener("upgradeneeded", () => {
      request.result.createObjectStore(STORE, { keyPath: "id", autoIncrement: true });
    });
    const store = new TrayStore(await done(request), memory, tab);
    return { store, pictures: await store.load(others) };
  } catch {
    return null;
  }
}

/** @type {Promise<{ tab: string, others: Set<string> }> | null} */
let met = null;

/** Find out which other tabs are there; a tab keeps its name when it is loaded again. */
function meetTabs() {
  met ??= (async () => {
    const others = /** @type {Set<string>} */ (new Set());
    const channel = new BroadcastChannel("cbcl-tray");
    let tab = sessionStorage.getItem("cbcl:tab") ?? newName();
    let isNamed = false;
    channel.addEventListener("message", ({ data }) => {
      if (data.here) others.add(data.here);
      else if (data.asks !== tab || isNamed) channel.postMessage({ here: tab });
    });
    channel.postMessage({ asks: tab });
    await new Promise((ready) => setTimeout(ready, ANSWER_MS));
    if (others.has(tab)) tab = newName(); // a copy of a tab has its name, too
    isNamed = true;
    sessionStorage.setItem("cbcl:tab", tab);
    return { tab, others };
  })();
  return met;
}

const newName = () => crypto.getRandomValues(new Uint32Array(2)).join("-");

/** @template T @param {IDBRequest<T>} request @returns {Promise<T>} */
const done = (request) =>
  new Promise((ready, fail) => {
    request.addEventListener("success", () => ready(request.result));
    request.addEventListener("error", () => fail(request.error));
  });

/** @param {IDBTransaction} transaction @returns {Promise<void>} */
const finished = (transaction) =>
  new Promise((ready, fail) => {
    transaction.addEventListener("complete", () => ready());
    transaction.addEventListener("abort", () => fail(transaction.error));
  });
