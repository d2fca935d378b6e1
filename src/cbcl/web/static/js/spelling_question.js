// @ts-check
// A question under a name field: "Cup" was typed, and there is "cup". It is asked before a form is
// sent, once for each name.

import { button, make } from "./dom.js";
import { labelNames } from "./memory.js";
import { findSpelledAlike } from "./spelling.js";
import { say, sayNodes } from "./words.js";

/**
 * Ask, where a form is about to be sent with a name that is nearly a known one.
 * @param {HTMLInputElement} input
 */
export function askAboutSpelling(input) {
  let sure = ""; // the name that is meant as it was typed
  const question = make("div", { class: "panel alike", role: "alert", hidden: true });
  input.parentElement?.append(question);
  const withdraw = () => (question.hidden = true);
  const send = (/** @type {string} */ name) => {
    sure = name;
    input.value = name;
    withdraw();
    input.focus();
    input.form?.requestSubmit();
  };
  input.addEventListener("input", withdraw);
  question.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    withdraw();
    input.focus();
  });
  // Before those who take the name from the form.
  input.form?.addEventListener(
    "submit",
    (event) => {
      const typed = input.value.trim();
      const known = typed === sure ? null : findSpelledAlike(typed, labelNames());
      if (known === null) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const small = { class: "small" };
      const use = button(say("spelling.use", { label: known }), () => send(known), small);
      const keep = button(say("spelling.keep", { label: typed }), () => send(typed), small);
      const words = sayNodes("spelling.known", { label: make("bdi", {}, known) });
      question.replaceChildren(make("p", {}, ...words), use, keep);
      question.hidden = false;
      use.focus();
    },
    { capture: true },
  );
}
