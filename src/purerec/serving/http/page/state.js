// Where we are: kept in the fragment of the address and nowhere else, so that it can be shared and the back button works.
//
//   #/likes?item=50&item=181&similar=172     #/user?id=196     #/model

const VIEWS = ["likes", "user", "model"];

/** The fragment as {view, items, user, similar}. What cannot be read is the first view with nothing in it. */
export function readState(fragment = location.hash) {
  const [path, query = ""] = splitOnce(fragment.replace(/^#\/?/, ""), "?");
  const values = new URLSearchParams(query);
  return {
    view: VIEWS.includes(path) ? path : "likes",
    items: [...new Set(values.getAll("item"))].filter(Boolean),
    user: values.get("id") || null,
    similar: values.get("similar") || null,
  };
}

export function toFragment({ view, items = [], user = null, similar = null }) {
  const values = new URLSearchParams();
  if (view === "likes") for (const item of items) values.append("item", item);
  if (view === "user" && user !== null) values.set("id", user);
  if (view !== "model" && similar !== null) values.set("similar", similar);
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

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}
