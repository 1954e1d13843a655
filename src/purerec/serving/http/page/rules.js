// The panel beside a list: conditions on the columns of the item table, and how varied and how well known the list is.
// What is chosen is kept in the address, as everything is.

import { byId, count, icon, make, title } from "./dom.js";
import { go, readState } from "./state.js";

const FIRST = 4; // columns shown at once; the others are folded away
const SHOWN_COLUMNS = 3; // attributes of a row

let columns = [];

/** Build the panels for a model. Called again when another model has taken its place. */
export function showRules(model) {
  columns = model?.columns ?? [];
  for (const box of document.querySelectorAll(".rules")) {
    // On a phone the list comes below: there the panel is folded until somebody opens it.
    const open = box.firstElementChild?.open ?? !matchMedia("(max-width: 48rem)").matches;
    box.replaceChildren(make("details", { open }, ...panel(box.id, model)));
  }
}

/** What the choices in the address mean for a request. */
export function rulesOf(state) {
  const names = columns.filter(({ kind, is_image, values }) => is_image || kind !== "text" || values);
  const body = { attributes: names.slice(0, 16).map(({ name }) => name) };
  if (state.where.length) body.where = state.where;
  if (state.diversity) body.diversity = state.diversity / 100;
  if (state.discount) body.popularity_discount = state.discount / 100;
  if (state.fresh) body.cold_items = 2;
  return body;
}

/** The address of an image, if it is one that may be shown: of this server, or contained in the address itself. */
export function imageOf(attributes) {
  const column = columns.find(({ is_image }) => is_image);
  const address = column && attributes?.[column.name];
  if (typeof address !== "string") return null;
  if (/^data:image\/(png|jpeg|gif|webp|avif|svg\+xml)[;,]/.test(address)) return address;
  try {
    const url = new URL(address, document.baseURI);
    return url.origin === location.origin && /^https?:$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Columns of the item table whose values say something in a line. */
export const hasImages = () => columns.some(({ is_image }) => is_image);

/** "Animation, Comedy · 1995 · Price 9.5", as text nodes: a number says what it is, unless it is a year. */
export function attributeLine(attributes) {
  const shown = columns.filter(({ name, is_image, kind }) => !is_image && kind !== "flag" && attributes?.[name] !== undefined);
  return shown.slice(0, SHOWN_COLUMNS).map(({ name, kind }) => {
    const value = attributes[name];
    const text = Array.isArray(value) ? value.slice(0, 4).join(", ") : String(value);
    return title(kind === "number" && !/year/i.test(name) ? `${words(name)} ${text}` : text);
  });
}

// ---------------------------------------------------------------- the panel

function panel(id, model) {
  const usable = columns.filter(({ kind, values, is_image }) => !is_image && (kind !== "text" || values?.length));
  const state = readState();
  const fields = usable.map((column) => field(id, column, state));
  const known = new Set(usable.flatMap((column) => own(column, state.where)));
  const others = state.where.filter((condition) => !known.has(condition));
  const more = fields.slice(FIRST);
  const body = [
    ...fields.slice(0, FIRST),
    more.length > 0 && folded(more),
    others.length > 0 && make("ul", { class: "chips" }, others.map(chip)),
    slider(id, "diversity", "Variety", "more varied", state.diversity),
    slider(id, "discount", "Popularity", "less known", state.discount),
    model?.cold_items > 0 && fresh(id, model, state),
    isShaped(state) && make("button", { type: "button", class: "quiet", "data-do": "reset", onclick: reset }, "Reset filters"),
  ];
  return [
    make("summary", {}, usable.length ? "Narrow it down" : "Shape the list", isShaped(state) ? make("span", { class: "pill lit" }, "on") : null),
    make("div", { class: "rules-body" }, body),
  ];
}

/** The fields of more columns, open if one of them is used. */
function folded(fields) {
  const open = fields.some((node) => node.dataset.set);
  return make("details", { class: "more", open }, make("summary", {}, "More filters"), make("div", { class: "rules-body" }, fields));
}

const isShaped = ({ where, diversity, discount, fresh: isFresh }) => where.length > 0 || diversity || discount || isFresh;

function reset() {
  go({ where: [], diversity: 0, discount: 0, fresh: false });
}

/** The conditions that the fields of a column stand for, of those in the address. */
function own({ name, kind, values }, where) {
  if (kind === "flag") return where.filter((condition) => condition === name);
  if (kind === "number") return where.filter((condition) => condition.startsWith(`${name}>=`) || condition.startsWith(`${name}<=`));
  return where.filter((condition) => values.some((value) => condition === `${name}=${value}`));
}

function field(id, column, state) {
  const { name, kind } = column;
  const set = own(column, state.where);
  const change = (added) => go({ where: [...readState().where.filter((other) => !own(column, [other]).length), ...added] });
  const key = `${id}-${columns.indexOf(column)}`;
  if (kind === "flag") {
    const box = make("input", { type: "checkbox", id: key, onchange: () => change(box.checked ? [name] : []) });
    box.checked = set.length > 0;
    return make("div", { class: "rule check", "data-set": set.length || null }, box, make("label", { for: key }, words(name)));
  }
  if (kind === "number") return numbers(column, key, set, change);
  const choice = make("select", { id: key, onchange: () => change(choice.value ? [`${name}=${choice.value}`] : []) });
  choice.append(make("option", { value: "" }, "Any"), ...column.values.map((value) => make("option", { value }, value)));
  choice.value = set.length ? set[0].slice(name.length + 1) : "";
  return make("div", { class: "rule", "data-set": set.length || null }, make("label", { for: key }, words(name)), choice);
}

function numbers({ name, least, most }, key, set, change) {
  const value = (sign) => set.find((condition) => condition.startsWith(name + sign))?.slice(name.length + 2) ?? "";
  const input = (sign, word, bound) =>
    make("input", {
      type: "number",
      step: "any",
      value: value(sign),
      placeholder: bound ?? "",
      "aria-label": `${words(name)} ${word}`,
      id: `${key}-${word}`,
      onchange: () => change(bounds.filter(([, box]) => box.value !== "").map(([of, box]) => `${name}${of}${box.value}`)),
    });
  const bounds = [
    [">=", input(">=", "from", least)],
    ["<=", input("<=", "to", most)],
  ];
  return make(
    "div",
    { class: "rule", role: "group", "aria-label": words(name), "data-set": set.length || null },
    make("span", { class: "rule-name" }, words(name)),
    make("div", { class: "bounds" }, bounds[0][1], make("span", { "aria-hidden": "true" }, "–"), bounds[1][1]),
  );
}

function slider(id, name, label, high, value) {
  const key = `${id}-${name}`;
  const box = make("input", { type: "range", id: key, min: 0, max: 90, step: 10, value, onchange: () => go({ [name]: Number(box.value) }) });
  box.setAttribute("aria-valuetext", value ? `${value} percent ${high}` : "as scored");
  return make(
    "div",
    { class: "rule" },
    make("label", { for: key }, label),
    box,
    make("div", { class: "ends", "aria-hidden": "true" }, make("span", {}, "as scored"), make("span", {}, high)),
  );
}

function fresh(id, model, state) {
  const key = `${id}-fresh`;
  const box = make("input", { type: "checkbox", id: key, onchange: () => go({ fresh: box.checked }) });
  box.checked = state.fresh;
  return make("div", { class: "rule check" }, box, make("label", { for: key }, `Also new items (${count(model.cold_items)} that nobody has liked yet)`));
}

function chip(condition) {
  const remove = () => go({ where: readState().where.filter((other) => other !== condition) });
  const name = `Remove ${condition}`;
  return make("li", { class: "chip" }, title(condition), make("button", { type: "button", "aria-label": name, onclick: remove }, icon("cross")));
}

/** A column name for people: in_stock as "In stock". */
function words(name) {
  const text = name.replaceAll("_", " ").trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** After a list was asked for: the panels say what the address says, and what was in focus stays so. */
export function refreshRules(model) {
  const focus = document.activeElement?.closest(".rules") ? document.activeElement.id : null;
  showRules(model);
  if (focus) byId(focus)?.focus({ preventScroll: true });
}
