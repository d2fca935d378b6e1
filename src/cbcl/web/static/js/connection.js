// Keeps in touch with the server: what it says of itself, every change as it happens, and whether it is there at all.

import { get, wire } from "./api.js";
import { find, make, words } from "./dom.js";
import { memory, reached, refresh } from "./memory.js";

const AGAIN = 2000; // milliseconds between tries to find the server
const UNWELL = 10_000; // milliseconds between questions to a server that cannot look at pictures, or does not let us in

export const state = { connected: false, problem: null };

/** Tells of "back" when the server can be asked again, and of "changed" when it can do more or less than before. */
export const connection = new EventTarget();

let events = null;
let calm = null;
let next = null;
let trying = false;

export function connect() {
  wire.addEventListener("gone", lost);
  wire.addEventListener("token", refused);
  wire.addEventListener("blind", () => state.problem || later(0)); // it says why when asked how it is
  wire.addEventListener("busy", ({ detail }) => busy(detail));
  hello();
}

/** Ask the server who it is, and listen to it. */
async function hello() {
  const fine = state.connected && !state.problem;
  try {
    const health = await get("/api/health");
    await refresh();
    greet(health);
  } catch (error) {
    if (error.kind !== "gone" && error.kind !== "token") banner(error.message);
    later(error.kind === "token" ? UNWELL : AGAIN); // the token may be given in another tab
    trying = true;
    return;
  }
  trying = false;
  listen();
  state.connected = true;
  if (!fine && !state.problem) connection.dispatchEvent(new Event("back"));
  tell("connected", "Connected");
  connection.dispatchEvent(new Event("changed"));
}

function later(milliseconds) {
  clearTimeout(next);
  next = setTimeout(hello, milliseconds);
}

function greet(health) {
  memory.name = health.memory;
  document.body.classList.add("ready");
  find("memory-name").textContent = health.memory;
  document.title = `${health.memory}: cbcl`;
  find("backbone").textContent = `${health.backbone.name} ·`;
  state.problem = health.backbone.problem;
  if (state.problem) {
    banner("I cannot look at pictures now.", ...words(health.backbone.problem));
    later(UNWELL);
  } else banner(null);
}

function listen() {
  if (events && events.readyState !== EventSource.CLOSED) return;
  events = new EventSource("/api/events");
  events.addEventListener("changed", (event) => reached(JSON.parse(event.data).revision));
  events.addEventListener("error", () => lost());
}

/** The server is gone: say so, and try until it is back. */
function lost() {
  events?.close();
  events = null;
  if (trying) return;
  trying = true;
  later(AGAIN / 4); // it may have been a moment only
  setTimeout(() => trying && gone(), AGAIN / 2);
}

function gone() {
  state.connected = false;
  connection.dispatchEvent(new Event("changed"));
  tell("gone", "Server gone");
  const command = make("code", {}, `cbcl teach ${memory.name || "MEMORY"}`);
  const rest = ": this page goes on by itself, and nothing that waits to be named is lost.";
  banner("The server is gone.", "Start it again with ", command, rest);
}

function refused() {
  state.connected = false;
  connection.dispatchEvent(new Event("changed"));
  tell("refused", "No token");
  const way = "Open the address that was printed where the server was started, or scan its code: then";
  banner("This page needs its token.", `${way} this page goes on, too.`);
}

function busy(seconds) {
  tell("busy", "Busy");
  find("connection").title = `The server has much to do: going on in ${Math.ceil(seconds)} s`;
  clearTimeout(calm);
  calm = setTimeout(() => state.connected && tell("connected", "Connected"), seconds * 1000 + 500);
}

function tell(name, text) {
  const node = find("connection");
  if (node.dataset.state === name) return;
  node.dataset.state = name;
  node.title = "";
  find("connection-text").textContent = text;
}

function banner(title, ...more) {
  const node = find("banner");
  const key = title === null ? "" : [title, ...more.map((one) => one.textContent ?? one)].join(" ");
  if (node.dataset.key === key) return; // said already
  node.dataset.key = key;
  node.hidden = title === null;
  node.replaceChildren(...(title === null ? [] : [make("strong", {}, title), make("span", {}, ...more)]));
}
