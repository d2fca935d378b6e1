// @ts-check
// Pixels of photos and of camera frames as the model takes them: RGB, upright, on white.

/** @import { Pixels } from "./app_types.d.ts" */

const MAX_SIDE = 16384; // pixels; browsers have no larger canvas

const canvas = globalThis.document?.createElement("canvas");

/**
 * Return the pixels of a photo; a large one is made smaller as Python's JPEG decoder does it.
 * @param {Blob} blob
 * @param {number} atLeast
 */
export async function photoPixels(blob, atLeast) {
  // Colours as they are stored: Python leaves colour profiles alone, too.
  const how = { imageOrientation: "from-image", colorSpaceConversion: "none" };
  const picture = await createImageBitmap(blob, /** @type {ImageBitmapOptions} */ (how));
  try {
    const { width, height } = picture;
    if (Math.max(width, height) > MAX_SIDE) throw new RangeError(`${width} x ${height}`);
    const { data } = draw(picture, width, height);
    return reduce(data, width, height, reductionOf(width, height, atLeast));
  } finally {
    picture.close();
  }
}

/**
 * Return the pixels of what the camera sees now.
 * @param {HTMLVideoElement} video
 * @param {number} atLeast
 */
export function framePixels(video, atLeast) {
  const scale = Math.min(1, atLeast / Math.min(video.videoWidth, video.videoHeight));
  const width = Math.round(video.videoWidth * scale);
  const height = Math.round(video.videoHeight * scale);
  return reduce(draw(video, width, height).data, width, height, 1);
}

/**
 * @param {CanvasImageSource} picture
 * @param {number} width
 * @param {number} height
 */
function draw(picture, width, height) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d", { willReadFrequently: true, alpha: false });
  if (!context) throw new Error("no canvas");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(picture, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

/**
 * Return how many pixels a side become one: 1, 2, 4 or 8.
 * @param {number} width
 * @param {number} height
 * @param {number} atLeast pixels that each side must keep
 */
export function reductionOf(width, height, atLeast) {
  const most = Math.floor(Math.min(width, height) / atLeast);
  return [8, 4, 2].find((factor) => factor <= most) ?? 1;
}

/**
 * Average squares of pixels; a JPEG decoder that decodes a fraction of a picture gives the same.
 * @param {Uint8ClampedArray} rgba
 * @param {number} width
 * @param {number} height
 * @param {number} factor
 * @returns {Pixels}
 */
export function reduce(rgba, width, height, factor) {
  const across = Math.ceil(width / factor);
  const down = Math.ceil(height / factor);
  const data = new Uint8Array(across * down * 3);
  for (let y = 0; y < down; y++) {
    const rows = Math.min(factor, height - y * factor);
    for (let x = 0; x < across; x++) {
      const columns = Math.min(factor, width - x * factor);
      const start = 4 * (y * factor * width + x * factor);
      const place = 3 * (y * across + x);
      for (let colour = 0; colour < 3; colour++) {
        let sum = 0;
        for (let row = 0; row < rows; row++) {
          const first = start + 4 * row * width + colour;
          for (let column = 0; column < columns; column++) sum += rgba[first + 4 * column];
        }
        data[place + colour] = Math.round(sum / (rows * columns));
      }
    }
  }
  return { data, width: across, height: down };
}
