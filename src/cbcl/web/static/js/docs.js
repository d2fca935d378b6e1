// Shows /api/openapi.json to people: every operation with what it takes, gives and refuses, and a line of curl.

import { find, make, words } from "./dom.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 4; // shapes within shapes
const TYPES = { string: "text", integer: "whole number", boolean: "true or false", object: "an object" };

let whole = {};

async function read() {
  const response = await fetch("/api/openapi.json");
  if (!response.ok) throw new Error(`The description cannot be had: the server said ${response.status}.`);
  whole = await response.json();
  find("docs-title").textContent = `${whole.info.title} ${whole.info.version}`;
  find("docs-lead").replaceChildren(...words(whole.info.description ?? "All that the page does, a program can do."));
  const groups = byGroup(operations());
  find("contents").replaceChildren(...groups.flatMap(([name, some]) => [make("h2", {}, name), ...some.map(entry)]));
  find("operations").append(...groups.map(group));
  if (location.hash) find(location.hash.slice(1))?.scrollIntoView();
}

function operations() {
  return Object.entries(whole.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => {
      const parameters = [...(item.parameters ?? []), ...(item[method].parameters ?? [])];
      return { path, method, ...item[method], parameters };
    }),
  );
}

function byGroup(all) {
  const groups = new Map();
  for (const one of all) {
    const name = one.tags?.[0] ?? "API";
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return [...groups];
}

const group = ([name, some]) => make("section", { class: "group" }, make("h2", {}, name), some.map(operation));
const anchor = ({ method, path }) => `${method}-${path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "")}`;
const badge = (method) => make("span", { class: `method ${method}` }, method.toUpperCase());
const entry = (one) => make("a", { href: `#${anchor(one)}` }, badge(one.method), one.path.replace(/^\/api/, ""));
const named = (name) => ({ tabindex: "0", role: "group", "aria-label": name });

function operation(one) {
  return make(
    "article",
    { class: "operation", id: anchor(one) },
    make("h3", {}, badge(one.method), make("code", {}, one.path)),
    make("p", {}, words(one.description ?? one.summary ?? "")),
    takes(one),
    gives(one),
    refuses(one),
    make("h4", {}, "With curl"),
    make("pre", named(`curl for ${one.method.toUpperCase()} ${one.path}`), curl(one)),
  );
}

function takes(one) {
  const [type, schema] = body(one);
  const shape = resolve(schema) ?? {};
  const parameters = one.parameters.map((each) =>
    field(each.name, each.schema, each.required, each.description ?? `in the ${each.in}`),
  );
  const parts = Object.entries(shape.properties ?? {}).map(([name, each]) =>
    field(name, each, shape.required?.includes(name), resolve(each)?.description),
  );
  if (!parameters.length && !parts.length) return null;
  const title = make("h4", {}, type ? `Takes (${type})` : "Takes");
  return make("div", {}, title, make("ul", { class: "fields" }, parameters, parts));
}

function body(one) {
  const [type, content] = Object.entries(one.requestBody?.content ?? {})[0] ?? [null, null];
  return [type, content?.schema];
}

function field(name, schema, required, said) {
  const what = `${kind(schema)}${required ? "" : " (may be left out)"}`;
  const type = make("span", { class: "quiet" }, what);
  return make("li", {}, make("code", {}, name), type, make("span", {}, words(said ?? "")));
}

/** What a value is, in a word or two. */
function kind(schema) {
  const shape = resolve(schema) ?? {};
  const options = shape.anyOf ?? shape.oneOf;
  if (options) return options.map(kind).join(" or ");
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  if (shape.enum) return shape.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (shape.type === "array") return `list of ${kind(shape.items)}`;
  if (shape.format === "binary" || shape.contentMediaType) return "file";
  return TYPES[shape.type] ?? shape.type ?? "anything";
}

function gives(one) {
  const [status, answer] = Object.entries(one.responses ?? {}).find(([code]) => code.startsWith("2")) ?? [];
  if (!answer) return null;
  const [type, content] = Object.entries(answer.content ?? {})[0] ?? ["", null];
  const title = make("h4", {}, type ? `Gives ${status} (${type})` : `Gives ${status}`);
  const plain = make("p", {}, answer.description ?? "");
  if (!content?.schema || type !== "application/json") return make("div", {}, title, plain);
  const sample = JSON.stringify(example(content.schema), null, 2);
  return make("div", {}, title, make("pre", named(`The answer of ${one.method.toUpperCase()} ${one.path}`), sample));
}

/** Something of that shape. */
function example(schema, depth = 0) {
  const shape = resolve(schema) ?? {};
  const given = shape.examples?.[0] ?? shape.example ?? shape.const ?? shape.enum?.[0];
  if (given !== undefined) return given;
  if (depth > DEEPEST) return "…";
  const inside = (each) => example(each, depth + 1);
  if (shape.anyOf || shape.oneOf) return inside((shape.anyOf ?? shape.oneOf)[0]);
  if (shape.type === "array") return [inside(shape.items)];
  const properties = Object.entries(shape.properties ?? {});
  if (properties.length) return Object.fromEntries(properties.map(([name, each]) => [name, inside(each)]));
  if (shape.additionalProperties) return { "…": inside(shape.additionalProperties) };
  return { string: "…", integer: 0, number: 0.5, boolean: false, null: null }[shape.type] ?? {};
}

function refuses(one) {
  const failed = Object.entries(one.responses ?? {}).filter(([code]) => !code.startsWith("2"));
  if (!failed.length) return null;
  const rows = failed.map(([code, answer]) => make("li", {}, make("code", {}, code), ` ${answer.description ?? ""}`));
  return make("div", {}, make("h4", {}, "Refuses"), make("ul", { class: "errors" }, rows));
}

/** A line that can be pasted into a terminal. */
function curl(one) {
  const wanted = one.parameters.filter((each) => each.in === "query" && each.required);
  const query = wanted.map((each) => `${each.name}=${sampleOf(each)}`).join("&");
  const named = (name) => one.parameters.find((each) => each.name === name) ?? {};
  const path = one.path.replace(/\{(\w+)\}/g, (_, name) => sampleOf(named(name)));
  const implied = one.method === "get" || (one.method === "post" && one.requestBody);
  const parts = [implied ? "" : `-X ${one.method.toUpperCase()}`, ...sent(one)];
  return ["curl", ...parts.filter(Boolean), quoted(`${location.origin}${path}${query ? `?${query}` : ""}`)].join(" ");
}

function sampleOf(parameter) {
  const sample = parameter.example ?? parameter.examples?.[0] ?? example(parameter.schema ?? {});
  return encodeURIComponent(sample === "…" ? "mug" : sample || 17);
}

/** What curl is told to send. */
function sent(one) {
  const [type, schema] = body(one);
  if (!type) return [];
  if (type === "application/json") return [`--json ${quoted(JSON.stringify(example(schema)))}`];
  const fields = Object.entries(resolve(schema)?.properties ?? {}).filter(([name]) => name !== "seen");
  return fields.map(([name, each]) => `-F ${quoted(`${name}=${kind(each).endsWith("file") ? fileFor(name) : "mug"}`)}`);
}

const fileFor = (name) => (name === "memory" ? "@other.cbcl" : "@photo.jpg");
const quoted = (text) => (/^[\w:/.=@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The shape itself, where only its name is given. */
function resolve(schema) {
  let found = schema;
  while (found?.$ref) {
    const { $ref, ...beside } = found;
    found = { ...$ref.slice(2).split("/").reduce((at, name) => at?.[name], whole), ...beside };
  }
  return found;
}

read().catch((error) => {
  find("docs-lead").textContent = error.message;
});
