// Where we are: kept in the fragment of the address and nowhere else, so that it can be shared and the back button works.
//
//   #/likes?item=50&item=181&similar=172&where=genre%3DComedy&diversity=30     #/user?id=196     #/model

const VIEWS = ["likes", "user", "model"];

/** The fragment as {view, items, user, similar} and the rules for lists. What cannot be read is the first view with nothing in it. */
export function readState(fragment = location.hash) {
  const [path, query = ""] = splitOnce(fragment.replace(/^#\/?/, ""), "?");
  const values = new URLSearchParams(query);
  return {
    view: VIEWS.includes(path) ? path : "likes",
    items: [...new Set(values.getAll("item"))].filter(Boolean),
    user: values.get("id") || null,
    similar: values.get("similar") || null,
    where: [...new Set(values.getAll("where"))].filter(Boolean).slice(0, 16),
    diversity: percent(values.get("diversity")),
    discount: percent(values.get("discount")),
    fresh: values.get("fresh") === "1",
  };
}

export function toFragment({ view, items = [], user = null, similar = null, where = [], diversity, discount, fresh }) {
  const values = new URLSearchParams();
  if (view === "likes") for (const item of items) values.append("item", item);
  if (view === "user" && user !== null) values.set("id", user);
  if (view !== "model") {
    if (similar !== null) values.set("similar", similar);
    for (const condition of where) values.append("where", condition);
    if (diversity) values.set("diversity", diversity);
    if (discount) values.set("discount", discount);
    if (fresh) values.set("fresh", "1");
  }
  return `#/${view}${values.size ? `?${values}` : ""}`;
}

/** Go there as a step that the back button undoes. */
export function go(change) {
  const fragment = toFragment({ ...readState(), similar: null, ...change });
  if (fragment !== location.hash) location.hash = fragment;
}

/** The same without a step of its own: for what is opened and closed in passing. */
export function adjust(change) {
  history.replaceState(null, "", toFragment({ ...readState(), ...change }));
}

/** A whole number from 0 to 100. */
function percent(text) {
  const value = Math.round(Number(text));
  return value >= 0 && value <= 100 ? value : 0;
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
