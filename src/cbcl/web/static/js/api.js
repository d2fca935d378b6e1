// @ts-check
// Requests to the server: one function a verb; failures are an ApiError with the server's sentence.

import { sleep } from "./dom.js";
import { say } from "./words.js";

/** @import { Changed, GetResponses, PostResponses } from "./types.d.ts" */
/** @typedef {string | null | { blob: Blob, name: string }} FormValue */
/** @typedef {{ body?: unknown, signal?: AbortSignal, retry?: boolean }} CallOptions */

/** Tells of "gone", "token", "switched", "backbone" and "busy" (detail: seconds) of any call. */
export const apiEvents = new EventTarget();

// Questions, which do no harm to any memory.
const QUESTIONS = ["/api/recognize", "/api/recognize-many", "/api/suspects", "/api/group"];
let meant = ""; // name of the memory that changes are meant for

/**
 * Mean this memory from now on: where another was opened in its place, nothing is done to that.
 * @param {string} name
 */
export const meanMemory = (name) => (meant = name);

/** A request that failed: its kind, the status (0: no answer), and seconds to wait. */
export class ApiError extends Error {
  /** @param {{ kind: string, message: string, retry_after?: number, seen?: string[] }} error */
  constructor({ kind, message, retry_after: seconds, seen }, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.retryAfter = seconds ?? 1;
    this.seen = seen ?? [];
  }
}

/** @template {keyof GetResponses} P @param {P} path @returns {Promise<GetResponses[P]>} */
export const get = (path) => call("GET", path);

/**
 * @template {keyof PostResponses} P
 * @param {P} path
 * @param {unknown} [body]
 * @param {CallOptions} [options]
 * @returns {Promise<PostResponses[P]>}
 */
export const post = (path, body, options) => call("POST", path, { ...options, body });

/** @param {"/api/strangers"} path @param {unknown} body @returns {Promise<Changed>} */
export const put = (path, body) => call("PUT", path, { body });

/** @param {string} name @returns {Promise<{ photos: string[] }>} */
export const deleteFromInbox = (name) => call("DELETE", `/api/inbox/${encodeURIComponent(name)}`);

/** @returns {Promise<{ revision: number }>} */
export const deleteNegatives = () => call("DELETE", "/api/negatives");

/**
 * Make a form of several values a name: {label: "mug", seen: [..], pictures: [{blob, name}]}.
 * @param {Record<string, FormValue | FormValue[]>} fields
 */
export function formData(fields) {
  const form = new FormData();
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) {
      if (typeof value === "string") form.append(name, value);
      else if (value) form.append(name, value.blob, value.name);
    }
  }
  return form;
}

/**
 * Return the server's answer; where it is busy, after waiting as long as it asks for.
 * @param {string} method
 * @param {string} path
 * @param {CallOptions} [options]
 */
async function call(method, path, { body, signal, retry = true } = {}) {
  for (;;) {
    const response = await send(method, path, body, signal);
    if (response.ok) return response.json();
    const error = await readError(response);
    if (error.status !== 429 || !retry) throw error;
    await sleep(error.retryAfter * 1000);
    signal?.throwIfAborted();
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 */
async function send(method, path, body, signal) {
  const headers = new Headers();
  const changes = method !== "GET" && !QUESTIONS.includes(path);
  if (meant && changes) headers.set("CBCL-Memory", encodeURIComponent(meant));
  /** @type {RequestInit} */
  const request = { method, signal, headers };
  if (body instanceof FormData) request.body = body;
  else if (body !== undefined) {
    request.body = JSON.stringify(body);
    headers.set("Content-Type", "application/json");
  }
  try {
    return await fetch(path, request);
  } catch (error) {
    if (signal?.aborted) throw error;
    emit("gone");
    throw new ApiError({ kind: "gone", message: say("errors.gone") });
  }
}

/** @param {Response} response */
async function readError(response) {
  const body = await response.json().catch(() => null);
  const message = say("errors.status", { status: String(response.status) });
  const fields = body?.error ?? { kind: "internal", message };
  const error = new ApiError({ ...fields, seen: fields.seen ?? body?.seen }, response.status);
  if (error.status === 401) emit("token");
  if (error.kind === "switched") emit("switched");
  if (error.kind === "backbone") emit("backbone");
  if (error.status === 429) emit("busy", error.retryAfter);
  return error;
}

/** @param {string} name @param {unknown} [detail] */
function emit(name, detail) {
  apiEvents.dispatchEvent(new CustomEvent(name, { detail }));
}
