// Building and announcing. Everything that comes from data goes through text nodes, never through HTML.

const SVG = "http://www.w3.org/2000/svg";

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** An element: `make("p", {class: "hint"}, "text", child)`. Properties that start with `on` are listeners. */
export function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function draw(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A title as it is. Isolated, so that marks for the writing direction inside it turn nothing outside around. */
export const title = (text, className = null) => make("bdi", { class: className }, text);

/** Icons are drawn here: no font, no image, and they take the colour of the text. */
export function icon(name) {
  const paths = {
    heart: "M8 13.6 2.9 8.7a3.3 3.3 0 0 1 0-4.8 3.5 3.5 0 0 1 4.8 0l.3.3.3-.3a3.5 3.5 0 0 1 4.8 0 3.3 3.3 0 0 1 0 4.8z",
    cross: "M4 4l8 8M12 4l-8 8",
    check: "M3 8.5l3.2 3.2L13 5",
    down: "M4 6l4 4 4-4",
  };
  return draw(
    "svg",
    { viewBox: "0 0 16 16", class: `icon icon-${name}`, "aria-hidden": "true" },
    draw("path", { d: paths[name] }),
  );
}

/** Say something to people who do not see the list change. */
export function announce(text) {
  const live = byId("live");
  live.textContent = "";
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => (live.textContent = text), 60);
}

const whole = new Intl.NumberFormat("en");
/** 1682 as 1,682. */
export const count = (n) => whole.format(n);

/** "1 item", "1,682 items". */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

const endings = { one: "st", two: "nd", few: "rd", other: "th" };
const ordinals = new Intl.PluralRules("en", { type: "ordinal" });
/** 2 as 2nd. */
export const ordinal = (n) => `${count(n)}${endings[ordinals.select(n)]}`;

/** A number for people: three or four digits that mean something. */
export function figure(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return Math.abs(value) >= 1e6 ? value.toLocaleString("en") : whole.format(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
