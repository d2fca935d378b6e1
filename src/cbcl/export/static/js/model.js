// @ts-check
// The model: its large files, fetched once and kept, and the worker that runs it.

/** @import { AppDescription, LargeFile, Model } from "./app_types.d.ts" */

/**
 * Load the model; progress is called with the share that has arrived.
 * @param {AppDescription} app
 * @param {(share: number) => void} progress
 * @returns {Promise<Model>}
 */
export async function openModel(app, progress) {
  const files = [app.model, app.runtime, ...(app.examples ? [app.examples] : [])];
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  let arrived = 0;
  const count = (/** @type {number} */ bytes) => progress((arrived += bytes) / total);
  const cache = await openCache(files);
  const [model, runtime, pictures] = await Promise.all(
    files.map((file) => fetchKept(file, cache, count)),
  );
  const call = startWorker();
  await call("open", { model, runtime }, [model, runtime]);
  return {
    recognize: (pixels) => call("recognize", pixels, [pixels.data.buffer]),
    exampleLabels: app.examples?.labels ?? [],
    exampleUrls: app.examples ? urlsOf(pictures, app.examples.sizes) : [],
  };
}

/**
 * Open the cache of large files, without those of an older app; null where there is none.
 * @param {LargeFile[]} files
 */
async function openCache(files) {
  try {
    const cache = await caches.open(`cbcl-files:${new URL("./", document.baseURI).href}`);
    const wanted = files.map(({ file }) => new URL(file, document.baseURI).href);
    for (const request of await cache.keys()) {
      if (!wanted.includes(request.url)) await cache.delete(request);
    }
    return cache;
  } catch {
    return null; // an insecure address, a private window, or storage that is full
  }
}

/**
 * Return the bytes of a file, from the cache if they are there.
 * @param {LargeFile} file
 * @param {Cache | null} cache
 * @param {(bytes: number) => void} count
 */
async function fetchKept({ file, bytes }, cache, count) {
  const kept = await cache?.match(file).catch(() => undefined);
  const response = kept ?? (await fetch(file));
  if (!response.ok || !response.body) throw new Error(`${file}: ${response.status}`);
  const data = new Uint8Array(bytes);
  let place = 0;
  const reader = response.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    data.set(value, place); // a RangeError: it is of another size, and so not the file
    place += value.length;
    count(value.length);
  }
  if (place !== bytes) throw new Error(`${file}: ${place} / ${bytes}`);
  if (!kept) await cache?.put(file, new Response(data)).catch(() => {}); // storage is full
  return data.buffer;
}

/** Start the worker; return a function that has it do something. */
function startWorker() {
  const worker = new Worker(new URL("model_worker.js", import.meta.url), { type: "module" });
  /** @type {Map<number, { done: (result: any) => void, fail: (error: Error) => void }>} */
  const waiting = new Map();
  let latest = 0;
  worker.addEventListener("message", ({ data: { id, result, problem } }) => {
    const call = waiting.get(id);
    waiting.delete(id);
    if (problem === undefined) call?.done(result);
    else call?.fail(new Error(problem));
  });
  worker.addEventListener("error", (event) => {
    for (const { fail } of waiting.values()) fail(new Error(event.message));
    waiting.clear();
  });
  return (
    /** @type {string} */ task,
    /** @type {object} */ given,
    /** @type {Transferable[]} */ transfer,
  ) =>
    new Promise((done, fail) => {
      waiting.set(++latest, { done, fail });
      worker.postMessage({ id: latest, task, given }, transfer);
    });
}

/**
 * Return addresses of pictures that lie one after another.
 * @param {ArrayBuffer} data
 * @param {number[]} sizes
 */
function urlsOf(data, sizes) {
  let start = 0;
  return sizes.map((size) => {
    const part = data.slice(start, (start += size));
    return URL.createObjectURL(new Blob([part], { type: "image/jpeg" }));
  });
}
