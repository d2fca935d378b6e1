// @ts-check
// The language of the app: the first of the browser's that there is, written into the markup.

import { chooseLanguage } from "./language_choice.js";
import { say, useWords } from "./words.js";

/**
 * Load the words and write them into the page.
 * @param {Record<string, "ltr" | "rtl">} languages directions of writing by language
 */
export async function speak(languages) {
  const language = chooseLanguage(navigator.languages ?? [], Object.keys(languages));
  useWords(await (await fetch(`words/${language}.json`)).json(), language);
  document.documentElement.lang = language;
  document.documentElement.dir = languages[language];
  for (const node of document.querySelectorAll("*")) write(node);
}

/** @param {Element} node */
function write(node) {
  for (const { name, value } of node.attributes) {
    if (name === "data-say") node.textContent = say(value);
    else if (name.startsWith("data-say-")) node.setAttribute(name.slice(9), say(value));
  }
}
