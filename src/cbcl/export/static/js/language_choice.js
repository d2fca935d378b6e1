// @ts-check
// Which language to speak: a pure function.

/**
 * Return the first language wished for that there is, else English.
 * @param {readonly string[]} wishes
 * @param {string[]} known
 */
export function chooseLanguage(wishes, known) {
  const names = wishes.map((wish) => wish.toLowerCase().split("-")[0]);
  return names.find((name) => known.includes(name)) ?? "en";
}
