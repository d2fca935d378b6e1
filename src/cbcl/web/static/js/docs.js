// @ts-check
// Shows /api/openapi.json: what each operation takes, gives and refuses, and a line of curl.

import { find, make, withCode } from "./dom.js";

/** @typedef {Record<string, any>} Schema of OpenAPI */
/** @typedef {{ path: string, method: string, parameters: Schema[] } & Schema} Operation */

const METHODS = ["get", "post", "put", "patch", "delete"];
const MAX_DEPTH = 4; // shapes within shapes
/** @type {Record<string, string>} */
const TYPE_NAMES = {
  string: "text",
  integer: "whole number",
  boolean: "true or false",
  object: "an object",
};
/** @type {Record<string, unknown>} */
const SAMPLES = { string: "…", integer: 0, number: 0.5, boolean: false, null: null };

/** @type {Schema} */
let description = {};

async function load() {
  const response = await fetch("/api/openapi.json");
  if (!response.ok) {
    throw new Error(`The description cannot be had: the server said ${response.status}.`);
  }
  description = await response.json();
  const { title, version, description: lead } = description.info;
  find("docs-title").textContent = `${title} ${version}`;
  const words = withCode(lead ?? "All that the page does, a program can do.");
  find("docs-lead").replaceChildren(...words);
  const groups = groupByTag(listOperations());
  for (const [name, operations] of groups) {
    find("contents").append(make("h2", {}, name), ...operations.map(contentsEntry));
    const articles = operations.map(operationArticle);
    find("operations").append(make("section", { class: "group" }, make("h2", {}, name), articles));
  }
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

/** @returns {Operation[]} */
function listOperations() {
  return Object.entries(description.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => {
      const parameters = [...(item.parameters ?? []), ...(item[method].parameters ?? [])];
      return { ...item[method], path, method, parameters };
    }),
  );
}

/** @param {Operation[]} operations */
function groupByTag(operations) {
  /** @type {Map<string, Operation[]>} */
  const groups = new Map();
  for (const operation of operations) {
    const name = operation.tags?.[0] ?? "API";
    groups.set(name, [...(groups.get(name) ?? []), operation]);
  }
  return groups;
}

/** @param {Operation} operation */
const anchorOf = ({ method, path }) =>
  `${method}-${path.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "")}`;

/** @param {unknown} value */
const toJson = (value) => JSON.stringify(value);

/** @param {string} method */
const badge = (method) => make("span", { class: `method ${method}` }, method.toUpperCase());

/** @param {Operation} operation */
const contentsEntry = (operation) =>
  make(
    "a",
    { href: `#${anchorOf(operation)}` },
    badge(operation.method),
    operation.path.replace(/^\/api/, ""),
  );

/**
 * Make a box of code that the keyboard can scroll.
 * @param {string} name
 * @param {string} text
 */
const codeBox = (name, text) =>
  make("pre", { tabindex: "0", role: "group", "aria-label": name }, text);

/** @param {Operation} operation */
function operationArticle(operation) {
  const { method, path } = operation;
  return make(
    "article",
    { class: "panel operation", id: anchorOf(operation) },
    make("h3", { class: "row" }, badge(method), make("code", {}, path)),
    make("p", {}, withCode(operation.description ?? operation.summary ?? "")),
    takesPart(operation),
    givesPart(operation),
    refusesPart(operation),
    make("h4", {}, "With curl"),
    codeBox(`curl for ${method.toUpperCase()} ${path}`, curlLine(operation)),
  );
}

/** @param {Operation} operation */
function takesPart(operation) {
  const [type, schema] = bodyOf(operation);
  const shape = resolve(schema);
  const parameters = operation.parameters.map((each) =>
    fieldItem(each.name, each.schema, each.required, each.description ?? `in the ${each.in}`),
  );
  const parts = Object.entries(shape.properties ?? {}).map(([name, each]) =>
    fieldItem(name, each, shape.required?.includes(name), resolve(each).description),
  );
  if (!parameters.length && !parts.length) return null;
  const title = make("h4", {}, type ? `Takes (${type})` : "Takes");
  return make("div", {}, title, make("ul", { class: "fields" }, ...parameters, ...parts));
}

/** @param {Operation} operation @returns {[type: string, schema: Schema | undefined]} */
function bodyOf(operation) {
  const [type, content] = Object.entries(operation.requestBody?.content ?? {})[0] ?? ["", null];
  return [type, content?.schema];
}

/** @param {string} name @param {Schema} schema @param {boolean} required @param {string} [about] */
function fieldItem(name, schema, required, about = "") {
  const type = `${typeName(schema)}${required ? "" : " (may be left out)"}`;
  return make(
    "li",
    {},
    make("code", {}, name),
    make("span", { class: "quiet" }, type),
    make("span", {}, withCode(about)),
  );
}

/**
 * Name the type of a value in a word or two.
 * @param {Schema | undefined} schema
 * @returns {string}
 */
function typeName(schema) {
  const shape = resolve(schema);
  const options = shape.anyOf ?? shape.oneOf;
  if (options) return options.map(typeName).join(" or ");
  if (shape.const !== undefined) return toJson(shape.const);
  if (shape.enum) return shape.enum.map(toJson).join(" | ");
  if (shape.type === "array") return `list of ${typeName(shape.items)}`;
  if (shape.format === "binary" || shape.contentMediaType) return "file";
  return TYPE_NAMES[shape.type] ?? shape.type ?? "anything";
}

/** @param {Operation} operation */
function givesPart({ method, path, responses = {} }) {
  const success = Object.entries(responses).find(([code]) => code.startsWith("2"));
  if (!success) return null;
  const [status, answer] = success;
  const [type, content] = Object.entries(answer.content ?? {})[0] ?? ["", null];
  const title = make("h4", {}, type ? `Gives ${status} (${type})` : `Gives ${status}`);
  if (!content?.schema || type !== "application/json") {
    return make("div", {}, title, make("p", {}, answer.description ?? ""));
  }
  const sample = JSON.stringify(exampleOf(content.schema), null, 2);
  return make("div", {}, title, codeBox(`The answer of ${method.toUpperCase()} ${path}`, sample));
}

/**
 * Make an example of a shape.
 * @param {Schema | undefined} schema
 * @returns {unknown}
 */
function exampleOf(schema, depth = 0) {
  const shape = resolve(schema);
  const given = shape.examples?.[0] ?? shape.example ?? shape.const ?? shape.enum?.[0];
  if (given !== undefined) return given;
  return depth > MAX_DEPTH ? "…" : exampleInside(shape, (each) => exampleOf(each, depth + 1));
}

/** @param {Schema} shape @param {(schema: Schema) => unknown} inside */
function exampleInside(shape, inside) {
  const options = shape.anyOf ?? shape.oneOf;
  if (options) return inside(options[0]);
  if (shape.type === "array") return [inside(shape.items)];
  const properties = Object.entries(shape.properties ?? {});
  if (properties.length) {
    return Object.fromEntries(properties.map(([name, each]) => [name, inside(each)]));
  }
  if (shape.additionalProperties) return { "…": inside(shape.additionalProperties) };
  return SAMPLES[shape.type] ?? {};
}

/** @param {Operation} operation */
function refusesPart({ responses = {} }) {
  const failures = Object.entries(responses).filter(([code]) => !code.startsWith("2"));
  if (!failures.length) return null;
  const rows = failures.map(([code, answer]) =>
    make("li", {}, make("code", {}, code), ` ${answer.description ?? ""}`),
  );
  return make("div", {}, make("h4", {}, "Refuses"), make("ul", { class: "errors" }, rows));
}

/**
 * Write a line that can be pasted into a terminal.
 * @param {Operation} operation
 */
function curlLine(operation) {
  const { method, parameters } = operation;
  const required = parameters.filter((each) => each.in === "query" && each.required);
  const query = required.map((each) => `${each.name}=${sampleOf(each)}`).join("&");
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) =>
    sampleOf(parameters.find((each) => each.name === name) ?? {}),
  );
  const implied = method === "get" || (method === "post" && operation.requestBody);
  const verb = implied ? [] : [`-X ${method.toUpperCase()}`];
  const address = quote(`${location.origin}${path}${query ? `?${query}` : ""}`);
  return ["curl", ...verb, ...bodyOptions(operation), address].join(" ");
}

/** @param {Schema} parameter */
function sampleOf(parameter) {
  const sample = parameter.example ?? parameter.examples?.[0] ?? exampleOf(parameter.schema);
  return encodeURIComponent(sample === "…" ? "mug" : sample || 17);
}

/**
 * List the options by which curl sends the body.
 * @param {Operation} operation
 */
function bodyOptions(operation) {
  const [type, schema] = bodyOf(operation);
  if (!type) return [];
  if (type === "application/json") return [`--json ${quote(JSON.stringify(exampleOf(schema)))}`];
  const properties = Object.entries(resolve(schema).properties ?? {});
  const fields = properties.filter(([name]) => name !== "seen");
  return fields.map(([name, each]) => {
    const file = name === "memory" ? "@other.cbcl" : "@photo.jpg";
    return `-F ${quote(`${name}=${typeName(each).endsWith("file") ? file : "mug"}`)}`;
  });
}

/** @param {string} text */
const quote = (text) =>
  /^[\w:/.=@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Return the shape itself, where only its name is given.
 * @param {Schema | undefined} schema
 * @returns {Schema}
 */
function resolve(schema) {
  let shape = schema ?? {};
  while (shape.$ref) {
    const { $ref, ...beside } = shape;
    const path = $ref.slice(2).split("/");
    const target = path.reduce(
      (/** @type {Schema} */ node, /** @type {string} */ name) => node?.[name],
      description,
    );
    shape = { ...target, ...beside };
  }
  return shape;
}

load().catch((error) => {
  find("docs-lead").textContent = error.message;
});
