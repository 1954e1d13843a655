// The first view: say what you like, see what is recommended, and why.

import { ask, Problem, Superseded, Waiting } from "./api.js";
import { combobox } from "./combobox.js";
import { announce, byId, count, icon, make, plural, title } from "./dom.js";
import { List } from "./lists.js";
import { rulesOf } from "./rules.js";
import { go, readState } from "./state.js";
import { learn, lookUp, titleOf } from "./titles.js";

const SHOWN = 10;
const REASONS = 2;
const WORDS = { liked: "Because you liked", like_you: "Popular with people like you", popular: "Popular", new: "New, similar to your likes" };

const isLiked = (item) => readState().items.includes(item);
const list = new List(byId("likes-list"), { words: WORDS, like: toggle, isLiked });
let shownFor = null; // the items that the list on the page is for

const field = combobox(byId("item-search"), {
  purpose: "items",
  find: (text) => ({ path: "v1/items", query: { query: text, limit: 20 } }),
  options: (answer) => learn(answer.items),
  show: option,
  choose: ({ item }) => (isLiked(item) ? announce(`${titleOf(item)} is in your list already.`) : toggle(item)),
  nothing: (text) => (text ? `Nothing found for “${text}”.` : "There are no items."),
  more: ({ total, items }) =>
    total > items.length ? `${count(items.length)} of ${plural(total, "item")}: type more to narrow down.` : "",
});

function option({ item, popularity }, text) {
  const aside = isLiked(item) ? [icon("check"), "liked"] : popularity ? [plural(popularity, "like")] : [];
  return [
    make("span", { class: "name" }, marked(titleOf(item), text)),
    make("span", { class: "aside" }, aside),
  ];
}

/** A title with what was typed marked in it: beginnings of words, as the search of the service goes. */
function marked(name, text) {
  const words = text.match(/[\p{L}\p{N}]+/gu) ?? [];
  const typed = new RegExp(`(?<![\\p{L}\\p{N}])(${words.join("|")})`, "iu");
  // Splitting by a group keeps what matched, at the odd places.
  const parts = words.length ? name.split(typed) : [name];
  return make("bdi", {}, ...parts.map((part, index) => (index % 2 ? make("mark", {}, part) : part)));
}

/** Like an item, or take that back. */
function toggle(item) {
  const { items, similar } = readState();
  const liked = items.includes(item);
  announce(liked ? `Removed ${titleOf(item)}.` : `You like ${titleOf(item)}.`);
  go({ view: "likes", items: liked ? items.filter((other) => other !== item) : [...items, item], similar });
}

byId("liked-clear").addEventListener("click", () => {
  go({ view: "likes", items: [] });
  byId("item-search").focus();
});

/** Bring the view up to what the address says. */
export async function showLikes(state, model) {
  const { items } = state;
  showChips(items);
  lookUp(items).then((learned) => learned && showChips(readState().items));
  const changed = shownFor !== items.join("\n");
  list.busy(true);
  try {
    await (items.length ? recommend(state, model) : popular(state, model));
    shownFor = items.join("\n");
    if (changed && items.length) announce(`${plural(list.ranks?.size ?? 0, "recommendation")} for what you like.`);
  } catch (error) {
    if (error instanceof Problem) list.message(error.message, "problem");
    else if (error instanceof Waiting) list.busy(false);
    else if (!(error instanceof Superseded)) throw error;
  }
}

export const refreshSearch = () => field.refresh();

async function recommend(state, model) {
  const { items } = state;
  const explain = model?.personalised === false ? 0 : REASONS;
  const k = Math.min(SHOWN, model?.limits?.k ?? SHOWN);
  const answer = await ask("list", "v1/recommend", { body: { history: items, k, explain, ...rulesOf(state) } });
  const [result] = answer.results;
  const unknown = new Set((result.unknown_items ?? []).map(String));
  for (const entry of result.items) learn(entry.because ?? []);
  head("Recommended for you", noteFor(result, unknown, items, model));
  showUnknown(unknown);
  if (result.items.length) list.show(learn(result.items), "you");
  else list.message(state.where.length ? "No items match these filters." : "Nothing is left to recommend.");
}

/** Without likes, a list is by popularity, and its scores are how many like an item. */
async function popular(state, model) {
  const k = Math.min(SHOWN, model?.limits?.k ?? SHOWN);
  const answer = await ask("list", "v1/recommend", { body: { history: [], k, ...rulesOf(state) } });
  const { items } = answer.results[0];
  const by = model?.has_titles === false ? "id" : "title";
  head("Popular with everybody", `Like something here, or find it by ${by}, to make the list yours.`);
  showUnknown(new Set());
  if (items.length) list.show(learn(items).map((entry) => ({ ...entry, note: `Liked by ${plural(entry.score, "user")}` })), "everybody");
  else list.message(state.where.length ? "No items match these filters." : "The model has no items.");
}

function noteFor(result, unknown, items, model) {
  if (model?.personalised === false) {
    return "This model gives the same list to everybody, without what you like.";
  }
  if (unknown.size === items.length) return "The model knows none of these items, so popular items are shown.";
  return "Changes as you like or remove items.";
}

function head(text, note) {
  byId("likes-list-title").textContent = text;
  byId("likes-list-note").textContent = note;
}

function showUnknown(unknown) {
  const line = byId("liked-unknown");
  line.hidden = !unknown.size;
  const names = [...unknown].flatMap((item, index) => [index ? ", " : "", title(item)]);
  line.replaceChildren("Not known to the model, and left out: ", ...names, ".");
  for (const chip of byId("liked-chips").children) chip.classList.toggle("unknown", unknown.has(chip.dataset.item));
}

function showChips(items) {
  const chips = byId("liked-chips");
  const unknown = new Set([...chips.querySelectorAll(".unknown")].map((chip) => chip.dataset.item));
  const focused = [...chips.children].findIndex((chip) => chip.contains(document.activeElement));
  byId("liked").hidden = !items.length;
  byId("liked-hint").hidden = items.length > 0;
  byId("liked-clear").hidden = items.length < 2;
  chips.replaceChildren(
    ...items.map((item) =>
      make(
        "li",
        { class: unknown.has(item) ? "chip unknown" : "chip", "data-item": item },
        title(titleOf(item)),
        make(
          "button",
          { type: "button", "aria-label": `Remove ${titleOf(item)}`, onclick: () => toggle(item), onkeydown: removeByKey },
          icon("cross"),
        ),
      ),
    ),
  );
  if (focused < 0) return;
  const after = chips.children[Math.min(focused, items.length - 1)];
  (after?.querySelector("button") ?? byId("item-search")).focus();
}

function removeByKey(event) {
  if (event.key !== "Delete" && event.key !== "Backspace") return;
  event.preventDefault();
  event.currentTarget.click();
}
