// Search: a picture goes to /v1/search, and both orders come back side by side.

import {
  Fault, api, checkSize, isStored, loadInfo, named, ofFile, ofRecord, onInfo, post, release, service,
} from "./api.js";
import { collection, noneBecause, onCollection, within } from "./collections.js";
import { $, el, fact, milliseconds, nameOf, plural, showFault, thumbnail } from "./dom.js";
import { onChoice, onFiles } from "./intake.js";
import { ghosts, highlight, showColumns } from "./ranking.js";
import { isMatch } from "./verdicts.js";
import { whyDialog } from "./why.js";

const TOP = 10;
const EXAMPLES = 8;
const STAGES = { decode: "decode", panel: "embed the query", retrieve: "find candidates", pair: "look at pairs" };

// `asked` is the query of the address: a stored picture's id, "file" for one the visitor brought, or null.
const state = { asked: null, query: null, file: null, result: null, running: null, why: null, stepped: false };
const dialog = whyDialog(() => (state.stepped ? history.back() : location.replace(address(state.asked))));

const address = (asked, why = null) => {
  const parameters = Object.entries({ q: asked, why }).filter(([, value]) => value);
  return `#/search${parameters.length ? `?${new URLSearchParams(parameters)}` : ""}`;
};

/** The address of this view was opened: search for what it names, and show or hide why a match is one. */
export async function enter(parameters) {
  const asked = parameters.get("q");
  state.why = parameters.get("why");
  if (asked === "file" && !state.file) return location.replace("#/search"); // a reload: the browser has let it go
  if (asked !== state.asked) {
    dialog.close();
    state.asked = asked;
    if (asked) await ask(asked);
    else reset();
  } else if (state.result) {
    requestAnimationFrame(() => highlight(state.result)); // the window may have changed meanwhile
  }
  syncWhy();
}

export function leave() {
  state.why = null;
  state.stepped = false;
  dialog.close();
}

function take(items) {
  const old = state.file;
  state.file = ofFile(items[0].file);
  state.asked = null;
  if (location.hash === address("file")) enter(new URLSearchParams({ q: "file" }));
  else location.hash = address("file");
  release(old);
}

function reset() {
  state.running?.abort();
  state.query = state.result = null;
  document.body.classList.remove("asked");
  $("answer").hidden = true;
  $("search-alert").hidden = true;
  $("intro").hidden = !(service.info?.collection?.pictures > 0);
}

async function ask(asked) {
  state.running?.abort();
  const running = (state.running = new AbortController());
  state.result = null;
  state.query = asked === "file" ? state.file : ofRecord({ id: asked });
  $("search-alert").hidden = true;
  $("intro").hidden = true;
  document.body.classList.add("asked");
  showQuery();
  $("verdict").textContent = "Looking…";
  $("timings").replaceChildren();
  $("answer").hidden = false;
  $("columns").setAttribute("aria-busy", "true");
  ghosts(Math.min(TOP, service.info?.collection?.pictures || TOP));
  const began = performance.now();
  try {
    const result = await request(state.query, running.signal);
    if (running.signal.aborted) return;
    state.result = result;
    show((performance.now() - began) / 1000);
  } catch (error) {
    if (error.name === "AbortError" || running.signal.aborted) return;
    if (!(error instanceof Fault)) console.error(error);
    $("answer").hidden = true;
    showFault($("search-alert"), named(error, { image: state.query.name }), () => ask(asked));
  } finally {
    if (state.running === running) $("columns").removeAttribute("aria-busy");
  }
}

async function request(query, signal) {
  if (!isStored(query)) {
    checkSize(query.file.size);
    const form = new FormData();
    form.append("image", query.file, query.name);
    form.append("top", TOP);
    if (collection() !== null) form.append("collection", collection());
    return api("/v1/search", { method: "POST", body: form, signal });
  }
  const record = api(within(`/v1/images/${encodeURIComponent(query.id)}`), { signal }).then((found) => {
    Object.assign(query, ofRecord(found));
    if (!signal.aborted) showQuery();
  });
  const asked = post("/v1/search", { image: { id: query.id }, top: TOP }, signal);
  const [result] = await Promise.all([asked, record]);
  return result;
}

/* Showing */

function showQuery() {
  const { name, source } = state.query;
  const image = thumbnail(source, `Your query, ${name}`, "no preview");
  $("query-image").replaceChildren(image);
  $("query-name").textContent = name;
}

function show(seconds) {
  const { timings, matches } = state.result;
  const stages = Object.entries(timings).map(([stage, value]) => fact(STAGES[stage] ?? stage, milliseconds(value)));
  $("timings").replaceChildren(...stages, fact("total", milliseconds(seconds), "total"));
  showColumns(state.result, state.query.id, openWhy);
  judge();
}

function judge() {
  if (!state.result) return;
  const { matches, reranked } = state.result;
  const count = service.info?.collection?.pictures ?? matches.length;
  const found = matches.filter(isMatch).length;
  const verdict = found
    ? `${plural(found, "match", "es")} among ${plural(count, "picture")}`
    : `No match among ${plural(count, "picture")}; these come closest`;
  const together = `${verdict}. ${reranked.toLocaleString("en")} re-ranked.`;
  $("verdict").textContent = matches.length ? together : "The collection is empty.";
  highlight(state.result);
}

/* Why */

function openWhy(match) {
  state.stepped = true;
  location.hash = address(state.asked, match.id);
}

function syncWhy() {
  if (!state.why) {
    state.stepped = false;
    return dialog.close();
  }
  if (!state.result) return;
  const { matches, candidates } = state.result;
  const match = [...matches, ...candidates].find((item) => item.id === state.why);
  if (match) dialog.open(state.query, { ...ofRecord(match), name: nameOf(match) });
  else location.replace(address(state.asked));
}

/* What is served */

onInfo((info) => {
  const count = info.collection?.pictures ?? 0;
  $("ask").hidden = !count;
  $("drop-formats").textContent = `${readable(info.formats)}. It is not kept.`;
  if (!info.collection) {
    say(...noneBecause(info), "#/compare", "Compare two pictures");
  } else if (!count) {
    say("The collection is empty", "Add a few pictures, then choose one to search for.", "#/collection", "Add pictures");
  } else {
    say();
    $("intro").hidden = state.asked !== null;
    loadExamples(count);
  }
});

/** The formats as their makers spell them: "JPEG, PNG or WebP". */
function readable(formats) {
  const names = formats.map((name) => (name === "WEBP" ? "WebP" : name));
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}` : names.join();
}

function say(title = "", text = "", href = "", link = "") {
  $("empty").hidden = !title;
  $("empty-title").textContent = title;
  $("empty-text").textContent = text;
  Object.assign($("empty-link"), { href, textContent: link });
}

let exampled = null;

async function loadExamples(count) {
  if (exampled === count) return;
  exampled = count;
  const asked = collection();
  const { data } = await api(within(`/v1/images?limit=${Math.min(240, count)}`)).catch(() => ({ data: [] }));
  if (asked !== collection()) return;
  const step = Math.max(1, data.length / EXAMPLES);
  const begins = (index) => Math.floor(index / step) !== Math.floor((index - 1) / step);
  const chosen = data.filter((_, index) => begins(index)).slice(0, EXAMPLES);
  $("example-list").replaceChildren(...chosen.map((item) => {
    const link = el("a", { className: "pick", href: address(item.id), title: nameOf(item) }, thumbnail(item.thumbnail));
    link.setAttribute("aria-label", `Search for ${nameOf(item)}`);
    return el("li", {}, link);
  }));
  $("examples").hidden = chosen.length === 0;
}

onCollection(() => {
  dialog.close();
  reset();
  state.asked = exampled = null;
  $("examples").hidden = true;
});
onFiles("search", (items) => service.info?.collection?.pictures && items.length && take(items));
onChoice($("file"), take);
addEventListener("resize", () => state.result && !$("answer").hidden && highlight(state.result));
// A failed start may be tried again from the page.
export const retryInfo = () => loadInfo().catch((error) => showFault($("search-alert"), error, retryInfo));
