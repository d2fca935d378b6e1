// @ts-check
// Photos that browsers cannot draw, such as HEIC and TIFF: the server shows what it has read.

const DRAWN = /^image\/(avif|bmp|gif|jpeg|png|webp)$/; // by every browser of the last years

/**
 * Make an address of a picture, to be revoked when it is no longer shown.
 * @param {{ blob: Blob, seen: string | null }} picture
 */
export function makeUrl({ blob, seen }) {
  const url = URL.createObjectURL(blob);
  return seen === null ? url : drawableUrl({ blob, url }, seen);
}

/**
 * Return the address of a photo that was looked at: its own, or that of the server's thumbnail.
 * @param {{ blob: Blob, url: string }} photo
 * @param {string} seen its digest
 */
export const drawableUrl = ({ blob, url }, seen) =>
  DRAWN.test(blob.type) ? url : `/api/seen/${seen}/thumbnail`;
