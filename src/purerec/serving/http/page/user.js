// The second view: somebody the model was fitted on, what they liked and what they get.

import { ask, Problem, Superseded, Waiting } from "./api.js";
import { combobox } from "./combobox.js";
import { announce, byId, count, make, plural, title } from "./dom.js";
import { List } from "./lists.js";
import { rulesOf } from "./rules.js";
import { go } from "./state.js";
import { learn, titleOf } from "./titles.js";

const SHOWN = 10;
const REASONS = 2;
const WORDS = { liked: "Because they liked", like_you: "Popular with people like them", popular: "Popular", new: "New, similar to their likes" };
// On a phone the recommendations come below: not too far.
const FIRST_OF_PAST = matchMedia("(max-width: 48rem)").matches ? 5 : 12;

const list = new List(byId("user-list"), { words: WORDS });
let past = [];

const field = combobox(byId("user-search"), {
  purpose: "users",
  find: (text) => ({ path: "v1/users", query: { query: text, limit: 20 } }),
  options: (answer) => answer.users.map(String),
  show: (user) => [make("span", { class: "name" }, title(user))],
  choose: (user) => go({ view: "user", user }),
  nothing: (text) => (text ? `No user's id begins with “${text}”.` : "There are no users."),
});

byId("past-more").addEventListener("click", () => {
  showPast(past.length);
  const first = byId("past-items").children[FIRST_OF_PAST];
  first?.setAttribute("tabindex", "-1");
  first?.focus();
});

/** Bring the view up to what the address says. */
export async function showUser(state, model) {
  const { user } = state;
  byId("user-hint").hidden = user !== null;
  if (user === null) {
    head("Recommended", "");
    past = [];
    showPast(0);
    list.message("Pick a user to see what they liked, what they get, and why.");
    return;
  }
  list.busy(true);
  try {
    const explain = model?.personalised === false ? 0 : REASONS;
    const k = Math.min(SHOWN, model?.limits?.k ?? SHOWN);
    const [known, { results }] = await Promise.all([
      ask("past", `v1/users/${encodeURIComponent(user)}/recommendations`, { query: { k: 1 } }),
      ask("list", "v1/recommend", { body: { users: [user], k, explain, ...rulesOf(state) } }),
    ]);
    const [answer] = results;
    past = learn(known.history ?? []);
    for (const entry of answer.items) learn(entry.because ?? []);
    byId("past-count").textContent = count(past.length);
    showPast(FIRST_OF_PAST);
    head(["Recommended to user ", title(user)], note(model));
    if (answer.items.length) list.show(learn(answer.items), user);
    else list.message(state.where.length ? "No items match these filters." : "Nothing is left to recommend.");
    announce(`User ${user}: ${plural(past.length, "item")} liked before, ${plural(answer.items.length, "recommendation")}.`);
  } catch (error) {
    if (error instanceof Problem) {
      past = [];
      showPast(0);
      head("Recommended", "");
      list.message(error.status === 404 ? `No user “${user}” in the training data.` : error.message, "problem");
    } else if (error instanceof Waiting) list.busy(false);
    else if (!(error instanceof Superseded)) throw error;
  }
}

export const refreshSearch = () => field.refresh();

function note(model) {
  if (model?.personalised === false) {
    return "This model gives the same list to everybody, without what they liked before.";
  }
  return "";
}

function head(text, under) {
  byId("user-list-title").replaceChildren(...[text].flat());
  byId("user-list-note").textContent = under;
}

function showPast(n) {
  byId("past").hidden = !past.length;
  byId("past-items").replaceChildren(...past.slice(0, n).map(({ item }) => make("li", {}, title(titleOf(item)))));
  byId("past-more").hidden = past.length <= n;
  byId("past-more").textContent = `Show all ${count(past.length)}`;
}
