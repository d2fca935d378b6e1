// @ts-check
// The worker of the model: runs its graph by ONNX Runtime, so that the page never stands still.

/** @import { Answer, Pixels } from "./app_types.d.ts" */

const RUNTIME = "../runtime/ort.js";
const LOADER = "../runtime/ort_loader.js";

/** @type {any} */
let ort;
/** @type {any} */
let session;

/** @type {Record<string, (given: any) => Promise<any>>} */
const TASKS = { open, recognize };

self.addEventListener("message", async ({ data: { id, task, given } }) => {
  try {
    self.postMessage({ id, result: await TASKS[task](given) });
  } catch (error) {
    self.postMessage({ id, problem: String(error.message ?? error) });
  }
});

/** @param {{ model: ArrayBuffer, runtime: ArrayBuffer }} files */
async function open({ model, runtime }) {
  ort = await import(RUNTIME);
  const { wasm } = ort.env;
  wasm.wasmBinary = runtime;
  wasm.wasmPaths = { mjs: new URL(LOADER, import.meta.url).href };
  wasm.numThreads = 1; // more need special headers of the server, and were slower (docs/app.md)
  session = await ort.InferenceSession.create(new Uint8Array(model));
}

/**
 * @param {Pixels} pixels
 * @returns {Promise<Answer>}
 */
async function recognize({ data, width, height }) {
  const pictures = new ort.Tensor("uint8", data, [1, height, width, 3]);
  const outputs = await session.run({ pictures });
  const [strangeness] = outputs.strangeness.data;
  const confidences = outputs.ranking_confidence.data;
  const labels = /** @type {string[]} */ ([...outputs.ranking.data]);
  return {
    label: strangeness > 1 ? null : labels[0],
    confidence: outputs.confidence.data[0],
    ranking: labels.map((label, place) => ({ label, confidence: confidences[place] })),
    distances: outputs.example_distance?.data ?? null,
  };
}
