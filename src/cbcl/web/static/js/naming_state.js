// @ts-check
// What the name field names: pure functions, without the page; naming.js shows it and teaches.

/**
 * Photos that are selected, what the camera sees, or the one photo that the answer is about; or
 * nothing yet, since none is selected, or none is there.
 * @typedef {{ kind: "photos", count: number }} PhotosTarget
 * @typedef {PhotosTarget | { kind: "seen" | "shown" | "select" | "none" }} Target
 */

/**
 * @typedef {object} Scene
 * @property {number} waiting new photos
 * @property {number} selected of them
 * @property {boolean | null} live the answer is about what the camera sees; null: there is none
 * @property {boolean} corrects somebody said that the answer is wrong
 */

/**
 * Tell what a name would be given to: the new photos that are selected come first, unless somebody
 * corrects the answer; without new photos it is what the camera sees.
 * @param {Scene} scene
 * @returns {Target}
 */
export function targetOf({ waiting, selected, live, corrects }) {
  if (live !== null && (corrects || waiting === 0)) return { kind: live ? "seen" : "shown" };
  if (selected) return { kind: "photos", count: selected };
  return { kind: waiting ? "select" : "none" };
}

/**
 * Tell whether a name is for the answer's picture, which must then stand still.
 * @param {Target} target
 */
export const isAboutAnswer = ({ kind }) => kind === "seen" || kind === "shown";
