// A list of recommendations: rank, title, reasons, what can be done with each; and the items like one of them below it.

import { ask, drop, Problem, Superseded, Waiting } from "./api.js";
import { announce, calm, icon, make, ordinal, title } from "./dom.js";
import { attributeLine, hasImages, imageOf } from "./rules.js";
import { adjust, readState } from "./state.js";
import { hasTitle, learn, titleOf } from "./titles.js";

const SIMILAR_SHOWN = 6;
const REASON_SIGNS = 80;
const MOVE_MS = 260;

/** A list in `box`. `words` say each kind of reason; `like(item)` is left out where liking is not possible. */
export class List {
  constructor(box, { words, like = null, isLiked = () => false }) {
    this.box = box;
    this.words = words;
    this.like = like;
    this.isLiked = isLiked;
    this.whose = null; // who the list shown is for
    this.ranks = null; // of its items, to tell what has moved in the next one
    this.similar = null; // {item, node} that is open
  }

  /** Something instead of a list: what is wrong, or what to do. */
  message(text, className = "empty") {
    this.box.replaceChildren(make("p", { class: className, role: className === "problem" ? "alert" : null }, text));
    this.busy(false);
    this.ranks = null;
  }

  /** While we wait: grey rows the first time, later the old list, paler. */
  busy(on) {
    this.box.setAttribute("aria-busy", String(on));
    if (!on || this.box.childElementCount) return;
    const rows = Array.from({ length: 6 }, () => make("div", { class: "skeleton" }, make("span"), make("span")));
    this.box.append(make("div", { class: "skeletons", "aria-hidden": "true" }, rows));
  }

  /**
   * Show items that have arrived; what was in focus stays in focus. Only lists for the same person are compared:
   * between two people, or the favourites of all and one's own list, nothing has moved.
   */
  show(items, whose) {
    const focus = this.focused();
    const places = this.places();
    const before = whose === this.whose ? this.ranks : null;
    this.whose = whose;
    this.ranks = new Map(items.map((entry, index) => [entry.item, index]));
    const rows = items.map((entry, index) => this.row(entry, index, before));
    this.box.replaceChildren(make("ol", { class: "rows" }, rows));
    this.busy(false);
    const open = readState().similar;
    if (this.ranks.has(open)) this.openSimilar(open, false);
    else this.similar = null;
    this.refocus(focus);
    this.glide(places);
  }

  row(entry, index, before) {
    const name = titleOf(entry.item);
    return make(
      "li",
      { class: hasImages() ? "row pictured" : "row", "data-item": entry.item },
      make("span", { class: "rank", "aria-hidden": "true" }, String(index + 1)),
      hasImages() && picture(entry.attributes),
      make(
        "div",
        { class: "what" },
        make("h3", {}, title(name)),
        facts(entry, moved(entry.item, index, before)),
        this.reasons(entry),
        entry.note ? make("p", { class: "reasons" }, entry.note) : null,
      ),
      // The model knows nothing of a new item that it could answer with.
      entry.kind !== "new" && this.actions(entry, name),
    );
  }

  actions(entry, name) {
    return make(
      "div",
      { class: "actions" },
      make(
        "button",
        {
          type: "button",
          class: "quiet",
          "data-do": "similar",
          "aria-expanded": "false",
          "aria-label": `More like ${name}`,
          onclick: () => this.toggleSimilar(entry.item),
        },
        "More like this",
        icon("down"),
      ),
      this.like ? this.likeButton(entry.item) : null,
    );
  }

  likeButton(item) {
    const liked = this.isLiked(item);
    return make(
      "button",
      {
        type: "button",
        class: "button like",
        "data-do": "like",
        "aria-pressed": String(liked),
        "aria-label": `Like ${titleOf(item)}`,
        onclick: () => this.like(item),
      },
      icon("heart"),
      liked ? "Liked" : "Like",
    );
  }

  reasons({ kind, because }) {
    if (!kind) return null;
    if (kind !== "liked" || !because?.length) return make("p", { class: "reasons" }, this.words[kind]);
    return make(
      "p",
      { class: "reasons" },
      `${this.words.liked} `,
      ...because.map((reason, index) => [
        index === 0 ? null : index === because.length - 1 ? " and " : ", ",
        reasonTitle(titleOf(String(reason.item))),
      ]),
    );
  }

  // ---------------------------------------------------------------- more like this

  toggleSimilar(item) {
    const open = this.similar?.item === item;
    this.closeSimilar();
    adjust({ similar: open ? null : item });
    if (!open) this.openSimilar(item, true);
  }

  closeSimilar() {
    drop("similar");
    this.similar?.node.remove();
    this.similar = null;
    for (const button of this.box.querySelectorAll('[data-do="similar"]')) button.setAttribute("aria-expanded", "false");
  }

  async openSimilar(item, aloud) {
    const row = this.rowOf(item);
    if (!row) return;
    const kept = this.similar?.item === item ? this.similar.node : null;
    const node = kept ?? make("div", { class: "similar" }, make("p", { class: "hint" }, "Looking for items like it …"));
    this.similar = { item, node };
    row.querySelector('[data-do="similar"]').setAttribute("aria-expanded", "true");
    row.append(node);
    try {
      const path = `v1/items/${encodeURIComponent(item)}/similar`;
      const items = learn((await ask("similar", path, { query: { k: SIMILAR_SHOWN } })).items);
      const lines = items.map((entry) => {
        const name = make("span", { class: "name" }, title(titleOf(entry.item)));
        return make("li", {}, name, this.like ? this.likeButton(entry.item) : null);
      });
      const heading = make("p", { class: "similar-head" }, "Most like ", title(titleOf(item)));
      const focus = this.focused();
      const found = items.length ? make("ul", {}, lines) : make("p", { class: "hint" }, "Nothing is like it.");
      node.replaceChildren(heading, found);
      this.refocus(focus);
      if (aloud) announce(`${items.length} items like ${titleOf(item)}.`);
    } catch (error) {
      if (error instanceof Problem) node.replaceChildren(make("p", { class: "problem" }, error.message));
      else if (!(error instanceof Superseded || error instanceof Waiting)) throw error;
    }
  }

  // ---------------------------------------------------------------- keeping one's place

  rowOf(item) {
    return [...this.box.querySelectorAll(".row")].find((row) => row.dataset.item === item) ?? null;
  }

  focused() {
    const control = document.activeElement;
    const row = this.box.contains(control) ? control.closest(".row") : null;
    if (!row) return null;
    const rows = [...this.box.querySelectorAll(".row")];
    const label = control.getAttribute("aria-label");
    return { item: row.dataset.item, index: rows.indexOf(row), action: control.dataset.do, label };
  }

  /** To the same button of the same item; if the item has gone, to that of the one in its place. */
  refocus(focus) {
    if (!focus) return;
    const rows = [...this.box.querySelectorAll(".row")];
    const row = this.rowOf(focus.item) ?? rows[Math.min(focus.index, rows.length - 1)];
    const buttons = [...(row?.querySelectorAll("button") ?? [])];
    const same = buttons.find((button) => button.getAttribute("aria-label") === focus.label);
    (same ?? buttons.find((button) => button.dataset.do === focus.action))?.focus({ preventScroll: true });
  }

  places() {
    return new Map([...this.box.querySelectorAll(".row")].map((row) => [row.dataset.item, row.getBoundingClientRect().top]));
  }

  /** Rows move to their new place instead of jumping, so that the eye can follow. */
  glide(places) {
    if (!places.size || calm()) return;
    for (const row of this.box.querySelectorAll(".row")) {
      const from = places.get(row.dataset.item);
      const by = from === undefined ? null : from - row.getBoundingClientRect().top;
      const frames = by === null ? { opacity: [0, 1] } : { transform: [`translateY(${by}px)`, "none"] };
      if (by !== 0) row.animate(frames, { duration: MOVE_MS, easing: "cubic-bezier(.2,.7,.3,1)" });
    }
  }
}

/** An image, or an empty place of the same size if there is none or it cannot be shown. */
function picture(attributes) {
  const address = imageOf(attributes);
  const empty = make("span", { class: "picture", "aria-hidden": "true" });
  if (!address) return empty;
  const image = make("img", { class: "picture", src: address, alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(empty));
  return image;
}

/** What is known of an item, in a quiet line: its attributes, its id unless that is its name already, where it was. */
function facts({ item, attributes }, place) {
  const parts = attributeLine(attributes).flatMap((part, index) => (index ? [" · ", part] : [part]));
  if (hasTitle(item)) parts.push(make("span", { class: "id" }, `#${item}`));
  if (place) parts.push(place);
  return parts.length ? make("p", { class: "facts" }, parts) : null;
}

/** A title within a sentence: very long ones are cut there, and whole where the item itself is shown. */
function reasonTitle(name) {
  const signs = [...name];
  return title(signs.length > REASON_SIGNS ? `${signs.slice(0, REASON_SIGNS).join("")}…` : name, "reason");
}

/** Where an item was in the list before. Not "new", which would say that of the item, nor "↑6", six of what? */
function moved(item, index, before) {
  if (!before) return null;
  const was = before.get(item);
  if (was === undefined) return make("span", { class: "pill lit" }, "was not listed");
  if (was === index) return null;
  const arrow = make("span", { "aria-hidden": "true" }, was > index ? "↑ " : "↓ ");
  return make("span", { class: "pill" }, arrow, `was ${ordinal(was + 1)}`);
}
