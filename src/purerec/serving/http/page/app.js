// The page: which view is shown, what the model is, and coming back after the service was away.

import { ask, onBack, Problem, Superseded, Waiting } from "./api.js";
import { byId } from "./dom.js";
import { refreshSearch as refreshItems, showLikes } from "./likes.js";
import { inOneLine, showModel } from "./model.js";
import { refreshRules } from "./rules.js";
import { readState } from "./state.js";
import { refreshSearch as refreshUsers, showUser } from "./user.js";

const TITLES = { likes: "For you", user: "Known user", model: "Model" };

let model = null;
let shown = null;

async function loadModel() {
  try {
    model = await ask("model", "v1/model");
    byId("about").textContent = inOneLine(model);
    byId("version").textContent = `purerec ${model.purerec}`;
    if (model.has_titles === false) nameById();
  } catch (error) {
    // A page without a model card still recommends.
    if (error instanceof Problem) byId("about").textContent = error.message;
    else if (!(error instanceof Superseded || error instanceof Waiting)) throw error;
  }
}

/** Without titles, everything is called by its id. */
function nameById() {
  byId("item-search-label").textContent = "Find by id";
  byId("item-options").setAttribute("aria-label", "Ids found");
}

/** The view that the address names, still without anything from the service in it. */
function arrange(state) {
  const changed = shown !== state.view;
  for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== `view-${state.view}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${state.view === "user" && state.user ? `User ${state.user}` : TITLES[state.view]} · purerec`;
  // A new view is read from its top; on the first load the browser decides.
  if (changed && shown !== null) {
    byId(`view-${state.view}`).querySelector("h1").focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  shown = state.view;
}

async function show() {
  const state = readState();
  arrange(state);
  refreshRules(model);
  if (state.view === "likes") return showLikes(state, model);
  if (state.view === "user") return showUser(state, model);
  await loadModel(); // another may have taken its place since
  return showModel(model);
}

async function start() {
  arrange(readState());
  await loadModel();
  await show();
}

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the state, and this is none
  byId("main").focus();
});
onBack(async () => {
  await start();
  refreshItems();
  refreshUsers();
});
start();
