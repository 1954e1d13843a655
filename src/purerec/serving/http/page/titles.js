// What we have learned about items from the answers so far: their titles.

import { ask, Problem, Superseded, Waiting } from "./api.js";

const known = new Map(); // id -> title, or null for an item without one

/** Keep the titles of {item, label} objects, and give them back with ids as text. */
export function learn(items) {
  return items.map((entry) => {
    const item = String(entry.item);
    known.set(item, entry.label ?? null);
    return { ...entry, item };
  });
}

/** The title of an item; its id where there is no title or none is known yet. */
export const titleOf = (item) => known.get(item) ?? item;

/** Whether the title says more than the id. */
export const hasTitle = (item) => Boolean(known.get(item));

/** Ask for the titles that are missing. True if there is something new to show. */
export async function lookUp(items) {
  const missing = items.filter((item) => !known.has(item));
  await Promise.all(missing.map(lookUpOne));
  return missing.some((item) => known.has(item));
}

async function lookUpOne(item) {
  try {
    // An item with exactly this id is the first of what a search for it finds.
    const { items } = await ask(`title ${item}`, "v1/items", { query: { query: item, limit: 1 } });
    const [found] = learn(items);
    if (found?.item !== item) known.set(item, null);
  } catch (error) {
    // An item without a title is shown by its id; the list reports unknown ones.
    if (error instanceof Problem) known.set(item, null);
    else if (!(error instanceof Superseded || error instanceof Waiting)) throw error;
  }
}
