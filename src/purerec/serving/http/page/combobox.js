// A text field with a list of suggestions below it: the ARIA pattern "editable combobox with list autocomplete".
//
// Arrow keys move, Enter takes, Escape closes and then empties. Focus stays in the field; the option that Enter would
// take is told through aria-activedescendant. Enter before the answer has come takes the first option once it has.

import { ask, drop, Problem, Superseded, Waiting } from "./api.js";
import { announce } from "./dom.js";

const PAUSE_MS = 120;

/**
 * - `find(text)` gives the path and query to ask; `options(answer)` what to offer; `show(option, text)` the nodes of it.
 * - `choose(option)` is called with the one taken. `nothing(text)` is said when there is none.
 */
export function combobox(input, { purpose, find, options, show, choose, nothing, more }) {
  const popup = input.parentElement.querySelector(".popup");
  const list = popup.querySelector("ul");
  const note = popup.querySelector(".popup-note");
  let offered = [];
  let active = -1;
  let pause = null;
  let asked = null; // the text that the offered options belong to
  let takeFirst = false;

  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");
  list.setAttribute("role", "listbox");

  const isOpen = () => !popup.hidden;

  function open() {
    popup.hidden = false;
    input.setAttribute("aria-expanded", String(offered.length > 0));
  }

  function close() {
    popup.hidden = true;
    input.setAttribute("aria-expanded", "false");
    point(-1);
    clearTimeout(pause);
    drop(purpose);
    takeFirst = false;
  }

  function point(index) {
    list.children[active]?.setAttribute("aria-selected", "false");
    active = index;
    const option = list.children[index];
    if (!option) {
      input.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function offer(answer, text) {
    offered = options(answer);
    asked = text;
    const nodes = offered.map((option, index) => {
      const node = document.createElement("li");
      node.id = `${list.id}-${index}`;
      node.setAttribute("role", "option");
      node.setAttribute("aria-selected", "false");
      node.append(...show(option, text));
      node.addEventListener("click", () => take(index));
      return node;
    });
    list.replaceChildren(...nodes);
    list.scrollTop = 0;
    say(offered.length ? more?.(answer) ?? "" : nothing(text));
    open();
    point(offered.length && text ? 0 : -1);
    announce(offered.length ? `${offered.length} found. ${note.textContent}` : note.textContent);
    if (takeFirst) take(0);
    takeFirst = false;
  }

  function say(text) {
    note.textContent = text;
    note.hidden = !text;
  }

  function take(index) {
    const option = offered[index];
    if (option === undefined) return;
    input.value = "";
    close();
    choose(option);
  }

  async function search() {
    clearTimeout(pause);
    pause = null;
    const text = input.value.trim();
    const slow = setTimeout(() => {
      say("Searching …");
      open();
    }, 400);
    try {
      const { path, query } = find(text);
      offer(await ask(purpose, path, { query }), text);
    } catch (error) {
      if (error instanceof Superseded) return;
      takeFirst = false;
      if (error instanceof Waiting) close();
      else if (error instanceof Problem) {
        offered = [];
        list.replaceChildren();
        say(error.message);
        open();
      } else throw error;
    } finally {
      clearTimeout(slow);
    }
  }

  input.addEventListener("input", () => {
    takeFirst = false;
    clearTimeout(pause);
    if (input.value.trim()) pause = setTimeout(search, PAUSE_MS);
    else close();
  });

  input.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !event.shiftKey) {
      event.preventDefault();
      if (!isOpen()) search();
      else if (offered.length) point(next(active, step, offered.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (isOpen() && asked === input.value.trim() && pause === null) take(Math.max(active, 0));
      else if (input.value.trim()) {
        takeFirst = true;
        search();
      }
    } else if (event.key === "Escape") {
      if (isOpen()) close();
      else input.value = "";
    }
  });

  input.addEventListener("click", () => isOpen() || search());
  input.addEventListener("blur", close);
  // A press on the list must not take the focus away from the field, or the list would close before the click.
  popup.addEventListener("pointerdown", (event) => event.preventDefault());
  popup.addEventListener("mousedown", (event) => event.preventDefault());

  return { refresh: () => document.activeElement === input && input.value.trim() && search() };
}

/** Around the end and through "none", which is back to typing. */
function next(active, step, n) {
  return ((active + 1 + step + n + 1) % (n + 1)) - 1;
}
