// @ts-check
// The connection to the server: its health, its events, and trying again when it is gone.

import { apiEvents, get, meanMemory } from "./api.js";
import { find, make, renewThumbnails, withCode } from "./dom.js";
import { forgetState, memory, refresh, syncTo } from "./memory.js";
import { say, sayNodes } from "./words.js";

/** @import { Health } from "./types.d.ts" */

const RETRY_MS = 2000; // between tries to reach the server
const UNHEALTHY_RETRY_MS = 10_000; // where it has no backbone, or does not let us in

export const connectionState = { connected: false, problem: /** @type {string | null} */ (null) };

/** Tells of "back" when the server can be asked again, and of "changed" when its state changes. */
export const connectionEvents = new EventTarget();

/** @type {EventSource | null} */
let events = null;
/** @type {number | undefined} */
let busyTimer;
/** @type {number | undefined} */
let retryTimer;
let retrying = false;

export function connect() {
  apiEvents.addEventListener("gone", onLost);
  apiEvents.addEventListener("token", onRefused);
  apiEvents.addEventListener("switched", async () => {
    const health = await get("/api/health").catch(() => null);
    if (health && health.memory !== memory.name) follow(health.memory);
  });
  // The health says why.
  apiEvents.addEventListener("backbone", () => connectionState.problem || retryIn(0));
  apiEvents.addEventListener("busy", (event) => {
    showBusy(/** @type {CustomEvent<number>} */ (event).detail);
  });
  checkHealth();
}

/** Ask the server for its health and state, and listen to its events. */
async function checkHealth() {
  const fine = connectionState.connected && !connectionState.problem;
  try {
    const [health] = await Promise.all([get("/api/health"), refresh()]);
    showHealth(health);
  } catch (error) {
    if (error.kind !== "gone" && error.kind !== "token") showBanner(error.message);
    // The token may be given in another tab.
    retryIn(error.kind === "token" ? UNHEALTHY_RETRY_MS : RETRY_MS);
    retrying = true;
    return;
  }
  retrying = false;
  listen();
  connectionState.connected = true;
  if (!fine && !connectionState.problem) emit("back");
  showConnected();
  emit("changed");
}

const showConnected = () => showState("connected", say("connection.connected"));

/** @param {string} name */
const emit = (name) => connectionEvents.dispatchEvent(new Event(name));

/** @param {number} milliseconds */
function retryIn(milliseconds) {
  clearTimeout(retryTimer);
  retryTimer = setTimeout(checkHealth, milliseconds);
}

/** @param {Health} health */
function showHealth(health) {
  if (memory.name && memory.name !== health.memory) return follow(health.memory);
  memory.name = health.memory;
  meanMemory(health.memory);
  document.body.classList.add("ready");
  find("memory-name").textContent = health.memory;
  document.title = `${health.memory}: cbcl`;
  find("backbone").textContent = `${health.backbone.name} ·`;
  showLookedAt(health.backbone.looks_at);
  connectionState.problem = health.backbone.problem;
  if (health.backbone.problem) {
    showBanner(say("banner.blind"), ...withCode(health.backbone.problem));
    retryIn(UNHEALTHY_RETRY_MS);
    return;
  }
  showBanner(null);
  if (!health.backbone.ready) retryIn(RETRY_MS); // what it looks at is known once it is loaded
}

/**
 * Draw a frame around the part of the viewfinder that is looked at; null: it is all looked at.
 * @param {Health["backbone"]["looks_at"]} part
 */
function showLookedAt(part) {
  const frame = find("looked-at");
  frame.hidden = part === null;
  frame.classList.toggle("squashed", part?.squashed ?? false);
  frame.style.setProperty("--part", String(part?.square ?? 1));
}

function listen() {
  if (events && events.readyState !== EventSource.CLOSED) return;
  events = new EventSource("/api/events");
  events.addEventListener("opened", (event) => follow(JSON.parse(event.data).memory));
  events.addEventListener("changed", (event) => syncTo(JSON.parse(event.data).revision));
  events.addEventListener("error", onLost);
}

/**
 * Go on with another memory, or another file of its name: drop all that is known of the one before.
 * @param {string} name
 */
function follow(name) {
  memory.name = name;
  meanMemory(name);
  renewThumbnails();
  forgetState();
  retryIn(0);
}

/** Try until the server is back; say that it is gone if that takes longer than a moment. */
function onLost() {
  events?.close();
  events = null;
  if (retrying) return;
  retrying = true;
  retryIn(RETRY_MS / 4);
  setTimeout(() => retrying && showGone(), RETRY_MS / 2);
}

function showGone() {
  connectionState.connected = false;
  emit("changed");
  showState("gone", say("connection.gone"));
  const command = make("code", {}, `cbcl teach ${memory.name || "MEMORY"}`);
  showBanner(say("banner.gone"), ...sayNodes("banner.gone_help", { command }));
}

function onRefused() {
  connectionState.connected = false;
  emit("changed");
  showState("refused", say("connection.token"));
  showBanner(say("banner.token"), say("banner.token_help"));
}

/** @param {number} seconds */
function showBusy(seconds) {
  showState("busy", say("connection.busy"));
  const hint = say("connection.busy_hint", { seconds: Math.ceil(seconds) });
  find("connection").title = hint;
  clearTimeout(busyTimer);
  busyTimer = setTimeout(() => connectionState.connected && showConnected(), seconds * 1000 + 500);
}

/** @param {string} name @param {string} text */
function showState(name, text) {
  const node = find("connection");
  if (node.dataset.state === name) return;
  node.dataset.state = name;
  node.title = "";
  find("connection-text").textContent = text;
}

/**
 * Show a title and more in the banner; null: hide it. The same is not said again.
 * @param {string | null} title
 * @param {(string | Node)[]} more
 */
function showBanner(title, ...more) {
  const node = find("banner");
  const texts = more.map((part) => (typeof part === "string" ? part : part.textContent));
  const key = title === null ? "" : [title, ...texts].join(" ");
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.hidden = title === null;
  node.replaceChildren();
  if (title !== null) node.append(make("strong", {}, title), make("span", {}, ...more));
}
