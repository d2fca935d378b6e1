// @ts-check
// State of a recording: which frames of a camera are new views; pure functions, without the page.

// A thing that is taught by so many different photos is known about as well as by more.
export const ENOUGH_VIEWS = 12;
export const THUMBNAIL_SIDE = 64; // pixels of the small picture that a frame is compared by
const BLOCKS = 8; // a side: what is left of that, so that noise and a trembling hand do not count
const MIN_DIFFERENCE = 0.45; // of two views, in deviations: a hand's trembling is below
const MIN_DEVIATION = 8; // of 255: the noise of a wall is no view

/**
 * @typedef {object} Recording
 * @property {readonly Float64Array[]} kept the views, as they are compared
 * @property {number} seen frames
 */

/** @type {Recording} */
export const NO_RECORDING = Object.freeze({ kept: Object.freeze([]), seen: 0 });

/**
 * Take one more frame; it is kept if it differs from all that are.
 * @param {Recording} recording
 * @param {Uint8ClampedArray} pixels RGBA, of a small picture
 * @returns {Recording}
 */
export function withFrame({ kept, seen }, pixels) {
  const view = viewOf(pixels);
  const isNew = kept.every((other) => differenceOf(view, other) > MIN_DIFFERENCE);
  return { kept: isNew ? [...kept, view] : kept, seen: seen + 1 };
}

/** @param {Recording} recording */
export const isEnough = ({ kept }) => kept.length >= ENOUGH_VIEWS;

/**
 * Return the grey values of a picture's blocks, without its brightness and contrast: light that
 * changes makes no new view.
 * @param {Uint8ClampedArray} pixels
 */
function viewOf(pixels) {
  const blocks = new Float64Array(BLOCKS * BLOCKS);
  const step = THUMBNAIL_SIDE / BLOCKS;
  for (let pixel = 0; pixel < THUMBNAIL_SIDE * THUMBNAIL_SIDE; pixel += 1) {
    const [x, y] = [pixel % THUMBNAIL_SIDE, Math.floor(pixel / THUMBNAIL_SIDE)];
    const [red, green, blue] = pixels.subarray(4 * pixel, 4 * pixel + 3);
    const grey = 0.299 * red + 0.587 * green + 0.114 * blue;
    blocks[Math.floor(y / step) * BLOCKS + Math.floor(x / step)] += grey / (step * step);
  }
  const mean = meanOf(blocks);
  const deviation = Math.sqrt(meanOf(blocks.map((value) => (value - mean) ** 2)));
  return blocks.map((value) => (value - mean) / Math.max(deviation, MIN_DEVIATION));
}

/** @param {Float64Array} one @param {Float64Array} other */
const differenceOf = (one, other) =>
  Math.sqrt(meanOf(one.map((value, index) => (value - other[index]) ** 2)));

/** @param {Float64Array} values */
const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
