// @ts-check
// The words of the page, by their keys, in the person's language; words/en.json has them all.

/** @typedef {string | Partial<Record<Intl.LDMLPluralRule, string>>} Words one a plural form */
/** @typedef {Record<string, string | number | Node>} Values */

/** @type {Record<string, Words>} */
let table = {};
let plurals = new Intl.PluralRules("en");
let numbers = new Intl.NumberFormat("en");
let percents = new Intl.NumberFormat("en", { style: "percent" });

/** Read the words that the server has put into the page. */
export function loadWords() {
  const text = document.getElementById("words")?.textContent ?? "{}";
  useWords(JSON.parse(text), document.documentElement.lang);
}

/**
 * Speak this language from now on.
 * @param {Record<string, Words>} words
 * @param {string} language
 */
export function useWords(words, language) {
  table = words;
  plurals = new Intl.PluralRules(language);
  numbers = new Intl.NumberFormat(language);
  percents = new Intl.NumberFormat(language, { style: "percent" });
}

/**
 * Return the words of a key; {name} stands for the value of that name, count for the plural form.
 * @param {string} key
 * @param {Record<string, string | number>} values
 */
export const say = (key, values = {}) => sayNodes(key, values).join("");

/**
 * Return the words of a key as parts, in which values may be nodes.
 * @param {string} key
 * @param {Values} values
 * @returns {(string | Node)[]}
 */
export function sayNodes(key, values) {
  return template(key, values.count)
    .split(/\{(\w+)\}/)
    .map((part, index) => (index % 2 ? written(values[part]) : part));
}

/** @param {string} key @param {Values[string] | undefined} count */
function template(key, count) {
  const words = table[key] ?? key;
  if (typeof words === "string") return words;
  return words[plurals.select(Number(count))] ?? words.other ?? key;
}

/** @param {Values[string] | undefined} value */
const written = (value) => (typeof value === "number" ? numbers.format(value) : (value ?? ""));

/**
 * Write 0.724 as 72%, rounded as the command line does it: halves to the even.
 * @param {number} number
 */
export function percent(number) {
  const hundredths = number * 100;
  const below = Math.floor(hundredths);
  const even = below + (below % 2);
  return percents.format((hundredths - below === 0.5 ? even : Math.round(hundredths)) / 100);
}
