// Line charts of a training history, as SVG made node by node. Colours and sizes of text come from the style sheet.

import { draw, figure, make } from "./dom.js";

const WIDTH = 340;
const HEIGHT = 170;
const LEFT = 46;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 26;

/** One chart for each quantity in the records of the epochs, the main ones first; null if there is nothing to draw. */
export function charts(history) {
  const names = [...new Set(history.flatMap(Object.keys))].filter((name) => name !== "epoch");
  const curves = names
    .map((name) => ({ name, points: pointsOf(history, name) }))
    .filter(({ points }) => points.length > 1);
  if (!curves.length) return null;
  const epochs = curves.flatMap(({ points }) => points.map(([epoch]) => epoch));
  const span = [Math.min(...epochs), Math.max(...epochs)];
  const row = (some) => make("div", { class: "charts" }, some.map((curve) => chart(curve, span)));
  const main = curves.filter(({ name }) => isMain(name));
  const rest = curves.filter(({ name }) => !isMain(name));
  if (!main.length || !rest.length) return row(curves);
  return [row(main), make("details", {}, make("summary", {}, `${rest.length} more curves`), row(rest))];
}

function pointsOf(history, name) {
  return history.filter((record) => Number.isFinite(record[name])).map((record) => [record.epoch, record[name]]);
}

/** What is minimised and what is measured; the rest (norms, rates) is for who looks closer. */
function isMain(name) {
  return name.endsWith("loss") || name.includes("@") || ["metric", "MAP", "MRR"].includes(name);
}

function chart({ name, points }, span) {
  const ys = points.map(([, y]) => y);
  const last = points.at(-1);
  const x = scale(...span, LEFT, WIDTH - RIGHT);
  const yTicks = ticks(Math.min(...ys), Math.max(...ys), 4);
  const y = scale(Math.min(...ys, ...yTicks), Math.max(...ys, ...yTicks), HEIGHT - BOTTOM, TOP);
  const path = points.map(([a, b], index) => `${index ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("");
  const about = `${name} over ${points.length} epochs, from ${figure(ys[0])} to ${figure(last[1])}`;
  return make(
    "figure",
    { class: "chart" },
    make("figcaption", {}, make("span", {}, name.replaceAll("_", " ")), make("span", { class: "last" }, figure(last[1]))),
    draw(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": about },
      yTicks.map((tick) => [
        draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
        draw("text", { x: LEFT - 7, y: y(tick) + 4, "text-anchor": "end" }, figure(tick)),
      ]),
      ticks(...span, 5)
        .filter(Number.isInteger)
        .map((tick) => draw("text", { x: x(tick), y: HEIGHT - 8, "text-anchor": "middle" }, figure(tick))),
      draw("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      draw("path", { class: "curve", d: path }),
      draw("circle", { class: "end", cx: x(last[0]), cy: y(last[1]), r: 3 }),
    ),
  );
}

/** A linear map of [low, high] to [from, to]. */
function scale(low, high, from, to) {
  const width = high - low || 1;
  return (value) => from + ((value - low) / width) * (to - from);
}

/** About n round numbers within the range. */
function ticks(low, high, n) {
  if (high <= low) return [low];
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((size) => size * power >= rough);
  const first = Math.ceil(low / step);
  const steps = Math.floor(high / step) - first;
  return Array.from({ length: steps + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}
