// @ts-check
// What is unknown, under the scores: how often to expect it, and the picture of what decides.

import { get } from "./api.js";
import { find, isLookOnly, make, withCode } from "./dom.js";
import { expectStrangers } from "./editing.js";
import { memory } from "./memory.js";
import { attempt } from "./toasts.js";
import { say } from "./words.js";

/** @import { Distribution, Forecast, HowOften, UnknownReport } from "./types.d.ts" */

/**
 * Of so many photos one is expected to be strange, while few things are known.
 * @type {[HowOften, number][]}
 */
const PHOTOS = [["often", 2], ["sometimes", 3], ["rarely", 10]];
const SIGHT = 3; // deviations of a curve that are drawn
const TOP = 4; // of the curves, in hundredths of the height
const GROUND = 66;
const MARKS = { strange: 70, known: 86 }; // where they begin
const MARK_HEIGHT = 12; // of the largest

let saved = Promise.resolve(); // what was chosen before: one after another

export function setUpUnknown() {
  find("unknown-upgrade").append(...withCode(say("unknown.upgrade")));
  find("strangers").disabled = isLookOnly();
  find("strangers").append(
    ...PHOTOS.map(([how, count]) => {
      const about = { type: "radio", name: "strangers", value: how, onchange: () => choose(how) };
      const hint = make("span", { class: "quiet" }, say("strangers.share", { count }));
      const forecast = make("span", { class: "forecast digits" });
      const name = make("span", { class: "how" }, say(`strangers.${how}`));
      return make("label", {}, make("input", about), name, hint, forecast);
    }),
  );
}

/** @param {HowOften} how */
function choose(how) {
  saved = saved.then(async () => void ((await expectStrangers(how)) || drawChoice()));
}

/** @returns {HTMLInputElement[]} */
const choices = () => [...find("strangers").querySelectorAll("input")];

function drawChoice() {
  for (const choice of choices()) choice.checked = choice.value === memory.strangers;
}

export async function drawUnknown() {
  const isFixed = !memory.abilities.includes("strangers");
  find("unknown").hidden = memory.labels.length === 0;
  find("unknown-fixed").hidden = !isFixed;
  find("unknown-upgrade").hidden = !memory.abilities.includes("upgrade");
  find("unknown-body").hidden = isFixed;
  drawChoice();
  if (isFixed || memory.labels.length === 0) return;
  find("unknown").setAttribute("aria-busy", "true");
  const told = await attempt(() => get("/api/unknown"));
  if (told && told.revision !== memory.revision) return; // it is drawn again when that is here
  find("unknown").removeAttribute("aria-busy");
  if (told) drawReport(told.report);
}

/** @param {UnknownReport | null} report */
function drawReport(report) {
  for (const choice of choices()) {
    const forecast = report?.forecasts[/** @type {HowOften} */ (choice.value)];
    const line = choice.parentElement?.querySelector(".forecast");
    line?.replaceChildren(forecast ? describeForecast(forecast) : "");
  }
  find("strangers-tested").textContent = describeTest(report?.forecasts.often);
  find("unknown-drawn").hidden = report === null;
  if (report) drawPicture(report);
}

/** @param {UnknownReport} report */
function drawPicture(report) {
  const picture = find("unknown-picture");
  const shapes = shapesOf(report);
  picture.querySelectorAll("path").forEach((path, row) => path.setAttribute("d", shapes[row]));
  const marked = report.known_scores.length + report.strange_scores.length > 0;
  picture.setAttribute("viewBox", `0 0 100 ${marked ? 100 : GROUND + 1}`);
  picture.setAttribute("aria-label", describePicture(report));
}

/** @param {Forecast | undefined} forecast of any setting */
function describeTest({ known, strange } = { known: 0, refused: 0, strange: 0, found: 0 }) {
  const parts = [];
  if (known || strange) parts.push(say("strangers.tested"));
  if (!known || !strange) parts.push(say("strangers.untested"));
  return parts.join(" ");
}

/** @param {Forecast} forecast */
function describeForecast({ known, refused, strange, found }) {
  const parts = [];
  if (known) parts.push(say("strangers.refuses", { number: refused, all: known }));
  if (strange) parts.push(say("strangers.finds", { number: found, all: strange }));
  return parts.join(" · ");
}

/** @param {UnknownReport} report */
function describePicture({ known, strange, limit }) {
  const short = (/** @type {number} */ score) => Math.round(100 * score) / 100;
  const [mine, others] = [known, strange].map(({ mean }) => short(mean));
  return say("unknown.picture", { mine, others, line: short(limit) });
}

/**
 * Draw the report in a square of 100, as paths: curves of strange and known photos, marks of those
 * that are kept, the limit.
 * @param {UnknownReport} report
 */
export function shapesOf({ known, strange, limit, known_scores: mine, strange_scores: others }) {
  const ends = [known, strange].flatMap(({ mean, deviation }) => [
    mean - SIGHT * deviation, mean + SIGHT * deviation,
  ]);
  const scores = [...ends, limit, ...mine, ...others];
  const low = scores.reduce((a, b) => Math.min(a, b));
  const width = scores.reduce((a, b) => Math.max(a, b)) - low;
  const at = (/** @type {number} */ score) => (100 * (score - low)) / width;
  const narrowest = Math.min(known.deviation, strange.deviation);
  const curve = (/** @type {Distribution} */ { mean, deviation }) => {
    const points = Array.from({ length: 2 * 100 + 1 }, (_, step) => {
      const x = step / 2;
      const away = (low + (x / 100) * width - mean) / deviation;
      const height = ((GROUND - TOP) * narrowest * Math.exp((-away * away) / 2)) / deviation;
      return `L${x} ${(GROUND - height).toFixed(2)}`;
    });
    return `M0 ${GROUND}${points.join("")}L100 ${GROUND}`;
  };
  return [
    curve(strange), curve(known),
    marks(others.map(at), MARKS.strange), marks(mine.map(at), MARKS.known),
    `M${at(limit).toFixed(2)} 0V100`,
  ];
}

/**
 * Draw photos as lines down, of which many at a place are one: longer, the more they are.
 * @param {number[]} places from 0 to 100
 * @param {number} top
 */
function marks(places, top) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const place of places) {
    const x = Math.round(2 * place) / 2;
    counts.set(x, (counts.get(x) ?? 0) + 1);
  }
  const most = Math.max(...counts.values(), 1);
  const height = (/** @type {number} */ count) => MARK_HEIGHT * (0.4 + (0.6 * count) / most);
  return [...counts].map(([x, count]) => `M${x} ${top}v${height(count).toFixed(1)}`).join("");
}
