// The third view: what the model is, what it was fitted on, how good it was measured to be, how its training went.

import { charts } from "./chart.js";
import { byId, count, figure, make } from "./dom.js";

const FITTED_ON = {
  name: "Data",
  users: "Users",
  items: "Items",
  positives: "Positives",
  interactions: "Interactions read",
  positive_rating: "Positive from rating",
  fitted_at: "Fitted",
  fit_seconds: "Fitted in",
  seed: "Seed",
};

/** One line for the head of the page. */
export function inOneLine(model) {
  const { users, items, name } = model.fitted_on ?? {};
  return [
    name ? `${model.name} on ${name}` : model.name,
    users ? `${count(users)} users` : null,
    items ? `${count(items)} items` : null,
  ].filter(Boolean).join(" · ");
}

export function showModel(model) {
  byId("model-title").textContent = model ? model.name : "The model";
  if (!model) {
    byId("model-card").replaceChildren(make("p", { class: "empty" }, "Waiting for the service …"));
    return;
  }
  byId("model-card").replaceChildren(
    make("p", { class: "lead" }, lead(model)),
    make(
      "div",
      { class: "cards" },
      make("div", { class: "stack" }, fittedOn(model), metrics(model.metrics)),
      make("div", { class: "stack" }, training(model.history), settings(model.config, model.fitted_on?.resolved)),
    ),
  );
}

function lead(model) {
  const { users, items, positives, name } = model.fitted_on ?? {};
  const parts = [];
  if (positives && users && items) {
    const of = `${count(positives)} positives of ${count(users)} users and ${count(items)} items`;
    parts.push(`Fitted on ${of}${name ? ` (${name})` : ""}.`);
  }
  if (model.personalised === false) parts.push("It gives the same list to everybody.");
  return parts.join(" ");
}

function card(heading, className, ...content) {
  return make("section", { class: `card ${className}` }, make("h2", {}, heading), ...content);
}

function fittedOn(model) {
  const found = model.fitted_on ?? {};
  const rows = Object.entries(FITTED_ON)
    .filter(([key]) => (found[key] ?? null) !== null)
    .map(([key, label]) => fact(label, value(key, found[key])));
  rows.push(fact("Version", make("code", {}, String(model.version))));
  return card("Fitted on", "facts", make("dl", {}, rows));
}

function fact(label, shown) {
  return make("div", {}, make("dt", {}, label), make("dd", {}, shown));
}

function value(key, raw) {
  if (key === "fit_seconds") return `${figure(raw)} s`;
  const when = key.endsWith("_at") ? new Date(raw) : null;
  if (when && !Number.isNaN(when.valueOf())) return when.toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" });
  return key === "seed" ? String(raw) : figure(raw);
}

function metrics(found) {
  // Either names and numbers, or what `purerec evaluate --json` writes, which has them one level down.
  const values = found?.metrics ?? found;
  const rows = Object.entries(values ?? {}).filter(([, number]) => typeof number === "number");
  if (!rows.length) {
    const command = make("code", {}, "purerec evaluate DATA --from FOLDER");
    const how = ["None are kept with this model. ", command, " measures it on held-out data."];
    return card("Metrics", "metrics", make("p", { class: "hint" }, how));
  }
  const body = rows.map(([name, number]) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, number.toFixed(4))),
  );
  const on = ["data", "split", "protocol"].map((key) => found[key]).filter((part) => typeof part === "string").join(", ");
  return card(
    "Metrics",
    "metrics",
    on ? make("p", { class: "hint" }, `Measured on ${on}.`) : null,
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Metric"), make("th", { scope: "col" }, "Value"))),
      make("tbody", {}, body),
    ),
  );
}

function training(history) {
  const drawn = history?.length ? charts(history) : null;
  if (drawn) return card("Training by epoch", "training", drawn);
  const why = "No curve: the model is fitted in one step, or its history was not kept.";
  return card("Training", "training", make("p", { class: "hint" }, why));
}

function settings(config, resolved) {
  const rows = Object.entries(config ?? {});
  if (!rows.length) return card("Settings", "settings", make("p", { class: "hint" }, "This model has none."));
  const shown = ([name, raw]) => fact(make("code", {}, name), setting(raw, resolved?.[name]));
  return card("Settings", "settings", make("dl", {}, rows.map(shown)));
}

function setting(raw, byDefault) {
  if (raw === null) return byDefault === undefined ? "not set" : `${figure(byDefault)} (by default)`;
  return typeof raw === "object" ? JSON.stringify(raw) : figure(raw);
}
