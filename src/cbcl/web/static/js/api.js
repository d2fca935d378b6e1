// Talks with the server: one function a verb; what goes wrong is a Trouble with the server's own sentence.

import { pause } from "./dom.js";

/** Tells of "gone", "token", "blind" and "busy" (detail: seconds to wait), whichever call met it. */
export const wire = new EventTarget();

const GONE = "The server does not answer. Nothing is lost: try again when it is back.";

export class Trouble extends Error {
  constructor({ kind, message, status = 0, retry_after: wait = 1, seen = [] }) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.wait = wait;
    this.seen = seen;
  }
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { ...options, body });
export const remove = (path) => call("DELETE", path);

/** A form of several values a name: {label: "mug", seen: [..], pictures: [{blob, name}]}. */
export function form(fields) {
  const made = new FormData();
  for (const [name, value] of Object.entries(fields)) {
    for (const one of [value].flat()) {
      if (one?.blob) made.append(name, one.blob, one.name);
      else if (one !== undefined && one !== null) made.append(name, one);
    }
  }
  return made;
}

/** The server's answer; where it is busy, after waiting as long as it asks for, unless the call is impatient. */
async function call(method, path, { body, signal, patient = true } = {}) {
  for (;;) {
    const response = await send(method, path, body, signal);
    if (response.ok) return response.json();
    const trouble = await troubleOf(response);
    if (trouble.status !== 429 || !patient) throw trouble;
    await pause(trouble.wait * 1000);
    signal?.throwIfAborted();
  }
}

async function send(method, path, body, signal) {
  const plain = body === undefined || body instanceof FormData;
  const request = { method, signal, body: plain ? body : JSON.stringify(body) };
  if (!plain) request.headers = { "Content-Type": "application/json" };
  try {
    return await fetch(path, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    tell("gone");
    throw new Trouble({ kind: "gone", message: GONE });
  }
}

async function troubleOf(response) {
  const told = await response.json().catch(() => null);
  const error = told?.error ?? { kind: "internal", message: `The server said ${response.status}, and nothing more.` };
  const trouble = new Trouble({ ...error, status: response.status, seen: error.seen ?? told?.seen });
  if (trouble.status === 401) tell("token");
  if (trouble.kind === "backbone") tell("blind");
  if (trouble.status === 429) tell("busy", trouble.wait);
  return trouble;
}

function tell(what, detail) {
  wire.dispatchEvent(new CustomEvent(what, { detail }));
}
