// The API for people, made from openapi.json: every address, what it takes, an example, and what it gives.

import { byId, count, make } from "./dom.js";

const METHODS = ["get", "post", "put", "delete"];
const WORDS = { array: "list", integer: "whole number", number: "number", string: "text", boolean: "true or false", object: "object" };

let parts = {}; // schemas by name

async function start() {
  let api;
  try {
    const response = await fetch(new URL("openapi.json", document.baseURI), { credentials: "omit" });
    if (!response.ok) throw new Error(`the service answered ${response.status}`);
    api = await response.json();
  } catch (error) {
    const text = `The description cannot be loaded: ${error.message}.`;
    byId("operations").replaceChildren(make("p", { class: "problem", role: "alert" }, text));
    return;
  }
  parts = api.components.schemas;
  byId("about").textContent = `version ${api.info.version}`;
  byId("version").textContent = `purerec ${api.info.version}`;
  byId("intro").replaceChildren(...paragraphs(api.info.description));
  const found = operations(api);
  byId("contents").replaceChildren(...contents(found));
  const sections = [...found].flatMap(([tag, list]) => [make("h2", { class: "tag" }, capital(tag)), ...list.map(operation)]);
  byId("operations").replaceChildren(...sections);
  if (location.hash) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

/** tag -> [{method, path, id, ...}], in the order of the description. */
function operations({ paths }) {
  const found = new Map();
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const [tag] = methods[method].tags ?? ["other"];
      const id = `${method}${path}`.replace(/[^a-z0-9]+/gi, "-").replace(/^-|-$/g, "");
      found.set(tag, [...(found.get(tag) ?? []), { ...methods[method], method, path, id }]);
    }
  }
  return found;
}

function contents(found) {
  const link = ({ method, path, id }) => make("li", {}, make("a", { href: `#${id}` }, verb(method), make("code", {}, path)));
  return [...found].map(([tag, list]) => make("div", {}, make("p", { class: "contents-tag" }, capital(tag)), make("ul", {}, list.map(link))));
}

const verb = (method) => make("span", { class: `verb ${method}` }, method.toUpperCase());

function operation({ method, path, id, summary, parameters = [], requestBody, responses, security }) {
  const body = requestBody && resolved(requestBody.content["application/json"].schema);
  const needs = security ? make("span", { class: "needs" }, " Needs the token, if the service has one.") : null;
  return make(
    "section",
    { class: "card operation", id, "aria-labelledby": `${id}-title` },
    make("h3", { id: `${id}-title` }, verb(method), make("code", {}, path)),
    make("p", { class: "summary" }, `${summary}.`, needs),
    parameters.length ? table("Parameters", parameters.map(parameter)) : null,
    body ? table("Body", Object.entries(body.properties).map(([name, schema]) => property(name, schema, body.required))) : null,
    example("Example", curl(method, path, parameters, body)),
    answers(responses),
  );
}

function table(caption, rows) {
  const line = ({ name, type, required, text }) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, make("code", {}, name), required ? make("span", { class: "required" }, "required") : null),
      make("td", { class: "type" }, type),
      make("td", {}, ...inline(text)),
    );
  const heads = ["Name", "Type", "Meaning"].map((text) => make("th", { scope: "col" }, text));
  const head = make("thead", {}, make("tr", {}, heads));
  const body = make("tbody", {}, rows.map(line));
  return make("div", { class: "scroll" }, make("table", { class: "fields" }, make("caption", {}, caption), head, body));
}

function parameter({ name, schema, required, description, in: place }) {
  const text = description ?? (place === "path" ? "Part of the address." : "");
  return { name, type: typeOf(schema) + usual(schema), required, text };
}

function property(name, schema, required = []) {
  const text = schema.description ?? "";
  return { name, type: typeOf(schema) + usual(schema), required: required.includes(name), text };
}

/** "; 10 if not given", where that says something. */
function usual({ default: value }) {
  const says = value !== undefined && value !== null && value !== "" && (typeof value !== "object" || Object.keys(value).length);
  return says ? `; ${value} if not given` : "";
}

/** "list of id, up to 256", "number from 0 to 1". */
function typeOf(schema) {
  const one = resolved(schema);
  const choices = (one.anyOf ?? []).filter((choice) => choice.type !== "null");
  if (choices.length === 2 && choices[0].type === "string" && choices[1].type === "integer") return "id";
  if (choices.length) return [...new Set(choices.map(typeOf))].join(" or ");
  if (one.enum) return one.enum.join(" | ");
  if (one.const !== undefined) return String(one.const);
  let text = WORDS[one.type] ?? "anything";
  if (one.type === "array") text = `list of ${typeOf(one.items ?? {})}`;
  if (one.type === "object" && one.additionalProperties?.type) text = `${typeOf(one.additionalProperties)} by name`;
  const low = one.minimum ?? one.exclusiveMinimum;
  const high = one.maximum ?? one.exclusiveMaximum;
  const isId = Math.abs(low) > 2 ** 53 || Math.abs(high) > 2 ** 53; // the bounds of 64 bits say nothing to people
  if (low !== undefined && high !== undefined && !isId) text += ` from ${count(low)} to ${count(high)}`;
  const most = one.maxItems ?? one.maxProperties;
  if (most !== undefined) text += `, up to ${count(most)}`;
  if (one.type === "string" && one.maxLength !== undefined) text += ` of up to ${count(one.maxLength)} characters`;
  return text;
}

function resolved(schema) {
  return schema.$ref ? parts[schema.$ref.split("/").pop()] : schema;
}

function curl(method, path, parameters, body) {
  const value = (item) => item.schema.examples?.[0] ?? item.examples?.[0] ?? item.schema.default ?? "x";
  const inPath = parameters.filter((item) => item.in === "path");
  const filled = inPath.reduce((text, item) => text.replace(`{${item.name}}`, encodeURIComponent(value(item))), path);
  const wanted = parameters.filter((item) => item.in === "query" && (item.required || item.name === "query"));
  const query = wanted.map((item) => `${item.name}=${encodeURIComponent(item.name === "query" ? "star" : value(item))}`);
  const address = new URL(filled.replace(/^\//, ""), document.baseURI);
  const target = `${address.origin}${address.pathname}${query.length ? `?${query.join("&")}` : ""}`;
  const post = method === "post" && !body ? "-X POST " : "";
  return `curl ${post}'${target}'${body?.examples ? ` -d '${JSON.stringify(body.examples.at(-1))}'` : ""}`;
}

function answers(responses) {
  const good = responses["200"]?.content?.["application/json"]?.schema;
  const shape = good && resolved(good);
  const others = Object.entries(responses).filter(([status]) => status !== "200");
  const told = ([status, { description }]) => make("span", {}, make("code", {}, status), ` ${description}`);
  return [
    shape?.examples ? example("Answer", JSON.stringify(shape.examples[0], null, 2)) : null,
    shape?.properties ? make("details", {}, make("summary", {}, "Fields of the answer"), ...fieldsOf(shape)) : null,
    others.length ? make("p", { class: "statuses" }, others.map(told)) : null,
  ];
}

/** The fields of an answer, and of the objects in it. */
function fieldsOf(shape, caption = "Answer", seen = new Set()) {
  if (seen.has(shape)) return [];
  seen.add(shape);
  const near = (schema) => [schema, schema.items, ...(schema.anyOf ?? []).flatMap((choice) => [choice, choice.items])];
  const inner = Object.values(shape.properties).flatMap(near).filter((schema) => schema?.$ref && resolved(schema).properties);
  return [
    table(caption, Object.entries(shape.properties).map(([name, schema]) => property(name, schema))),
    ...inner.flatMap((schema) => fieldsOf(resolved(schema), schema.$ref.split("/").pop(), seen)),
  ];
}

function example(label, text) {
  return make("figure", { class: "example" }, make("figcaption", {}, label), make("pre", { tabindex: "0" }, make("code", {}, text)));
}

const paragraphs = (text) => text.split(/\n{2,}/).map((part) => make("p", {}, ...inline(part.replaceAll("\n", " "))));

/** Words in backticks are code. */
const inline = (text) => text.split("`").map((part, index) => (index % 2 ? make("code", {}, part) : part));

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
start();
