// @ts-check
// The connection to the server: its health, its events, and trying again when it is gone.

import { apiEvents, get } from "./api.js";
import { find, make, withCode } from "./dom.js";
import { memory, refresh, syncTo } from "./memory.js";

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
    const health = await get("/api/health");
    await refresh();
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
  showState("connected", "Connected");
  emit("changed");
}

/** @param {string} name */
const emit = (name) => connectionEvents.dispatchEvent(new Event(name));

/** @param {number} milliseconds */
function retryIn(milliseconds) {
  clearTimeout(retryTimer);
  retryTimer = setTimeout(checkHealth, milliseconds);
}

/** @param {Health} health */
function showHealth(health) {
  memory.name = health.memory;
  document.body.classList.add("ready");
  find("memory-name").textContent = health.memory;
  document.title = `${health.memory}: cbcl`;
  find("backbone").textContent = `${health.backbone.name} ·`;
  connectionState.problem = health.backbone.problem;
  if (health.backbone.problem) {
    showBanner("I cannot look at pictures now.", ...withCode(health.backbone.problem));
    retryIn(UNHEALTHY_RETRY_MS);
  } else showBanner(null);
}

function listen() {
  if (events && events.readyState !== EventSource.CLOSED) return;
  events = new EventSource("/api/events");
  events.addEventListener("changed", (event) => syncTo(JSON.parse(event.data).revision));
  events.addEventListener("error", onLost);
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
  showState("gone", "Server gone");
  const command = make("code", {}, `cbcl teach ${memory.name || "MEMORY"}`);
  const rest = ": this page goes on by itself, and nothing that waits to be named is lost.";
  showBanner("The server is gone.", "Start it again with ", command, rest);
}

function onRefused() {
  connectionState.connected = false;
  emit("changed");
  showState("refused", "No token");
  const way = "Open the address that was printed where the server was started, or scan its code";
  showBanner("This page needs its token.", `${way}: then this page goes on, too.`);
}

/** @param {number} seconds */
function showBusy(seconds) {
  showState("busy", "Busy");
  find("connection").title = `The server has much to do: going on in ${Math.ceil(seconds)} s`;
  clearTimeout(busyTimer);
  const calm = () => connectionState.connected && showState("connected", "Connected");
  busyTimer = setTimeout(calm, seconds * 1000 + 500);
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
 * @param {(string | HTMLElement)[]} more
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
