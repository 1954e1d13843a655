// Talking to the service: one request at a time for each purpose, and what to do when it does not answer.

import { byId, make } from "./dom.js";

const TIMEOUT_MS = 15_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 15_000;

let token = null; // in memory only
const running = new Map(); // purpose -> AbortController of its newest request

/** The service answered, but with a problem. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** A newer request replaced this one: its answer is no longer needed. */
export class Superseded extends Error {}

/** The service is away or busy, or wants a token; the page already says so, and will ask again by itself. */
export class Waiting extends Error {}

/** Ask the service. A request supersedes the one before it with the same purpose, however late that one answers. */
export async function ask(purpose, path, { query = {}, body = null } = {}) {
  running.get(purpose)?.abort();
  const control = new AbortController();
  running.set(purpose, control);
  const timer = setTimeout(() => control.abort(new Error("timeout")), TIMEOUT_MS);
  try {
    let sent, response, answer;
    do {
      sent = token;
      response = await send(path, query, body, control.signal);
      answer = await read(response);
    } while (response.status === 401 && sent !== token); // another was given meanwhile: this says nothing about that one
    if (running.get(purpose) !== control) throw new Superseded();
    if (response.ok && answer !== null) {
      up();
      return answer;
    }
    throw refuse(response, answer);
  } catch (error) {
    if (running.get(purpose) !== control) throw new Superseded();
    if (error instanceof Problem || error instanceof Waiting || error instanceof Superseded) throw error;
    down("The service does not answer.");
    throw new Waiting();
  } finally {
    clearTimeout(timer);
    if (running.get(purpose) === control) running.delete(purpose);
  }
}

/** Forget what was asked for this purpose. */
export function drop(purpose) {
  running.get(purpose)?.abort();
  running.delete(purpose);
}

function send(path, query, body, signal) {
  // Relative to the page, so that it also works below a path of a proxy.
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  return fetch(url, {
    method: body ? "POST" : "GET",
    headers,
    body: body ? JSON.stringify(body) : null,
    signal,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
}

async function read(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function refuse(response, answer) {
  const detail = typeof answer?.detail === "string" ? answer.detail : "";
  if (response.status === 401) {
    askForToken(token === null ? "" : "The service rejected this token.");
    return new Waiting();
  }
  if ([502, 503, 504].includes(response.status)) {
    down("The service cannot answer now.", detail, Number(response.headers.get("Retry-After")) * 1000);
    return new Waiting();
  }
  return new Problem(response.status, detail || answer?.title || `The service answered with ${response.status}.`);
}

// ---------------------------------------------------------------- away, and back

let again = () => {};
let wait = 0;
let timer = null;

/** Call this when the service is back after it was away, or when a token was given. */
export function onBack(callback) {
  again = callback;
}

function down(title, detail = "", retryAfterMs = 0) {
  byId("connection-title").textContent = title;
  byId("connection").hidden = false;
  if (timer !== null) return; // already trying
  wait = Math.min(LONGEST_WAIT_MS, Math.max(wait * 2, retryAfterMs || 0, FIRST_WAIT_MS));
  countDown(Date.now() + wait, detail);
}

function countDown(until, detail) {
  const left = Math.ceil((until - Date.now()) / 1000);
  if (left <= 0) {
    timer = null;
    probe();
    return;
  }
  // The seconds are for the eye: an alert that changes each second would be read aloud each second.
  const seconds = make("span", { "aria-hidden": "true" }, `Trying again in ${left} s.`);
  byId("connection-detail").replaceChildren(detail ? `${detail} ` : "", seconds);
  timer = setTimeout(() => countDown(until, detail), Math.min(1000, until - Date.now()));
}

async function probe() {
  clearTimeout(timer);
  timer = null;
  byId("connection-detail").textContent = "Trying again …";
  try {
    const response = await send("readyz", {}, null, AbortSignal.timeout(5_000));
    if (response.status >= 500) throw new Error("not ready");
  } catch {
    down("The service does not answer.");
    return;
  }
  up();
  again();
}

function up() {
  wait = 0;
  clearTimeout(timer);
  timer = null;
  byId("connection").hidden = true;
}

function askForToken(problem) {
  const form = byId("token-form");
  byId("token-error").textContent = problem;
  if (form.hidden) {
    form.hidden = false;
    byId("main").classList.add("locked");
    byId("token").focus();
  }
}

byId("connection-retry").addEventListener("click", probe);
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  byId("token-form").hidden = true;
  byId("main").classList.remove("locked");
  again();
});
