// Collection: look through the pictures, add some, remove one.

import { addAll } from "./adding.js";
import { Fault, api, loadInfo, onInfo, service } from "./api.js";
import { collection, noneBecause, onCollection, within } from "./collections.js";
import { $, confirmed, el, nameElement, nameOf, plural, showFault, thumbnail } from "./dom.js";
import { onChoice, onFiles } from "./intake.js";

const PAGE = 48;
const READ_ONLY = "Your key can look but not change: adding and removing pictures needs an admin's key.";
// Pictures go on into the collection that was chosen when they were brought, whichever is looked at meanwhile.
const state = { next: null, more: false, loaded: false, loading: null, adding: null, retry: [], into: null };

export function enter() {
  if (!state.loaded && service.info?.collection) browse();
}

export const leave = () => {};

/* Browsing */

async function browse() {
  if (state.loading) return;
  const button = $("more");
  button.disabled = true;
  $("collection-alert").hidden = true;
  const mine = (state.loading = {});
  const query = new URLSearchParams({ limit: PAGE, ...(state.next ? { after: state.next } : {}) });
  try {
    const { data, has_more: more } = await api(within(`/v1/images?${query}`));
    if (state.loading !== mine) return;
    state.loaded = true;
    state.more = more;
    state.next = data.at(-1)?.id ?? state.next;
    $("tiles").append(...data.map(tile));
    paint();
  } catch (error) {
    if (state.loading === mine) showFault($("collection-alert"), error, browse);
  } finally {
    if (state.loading === mine) {
      button.disabled = false;
      state.loading = null;
    }
  }
}

function paint() {
  const count = service.info?.collection?.pictures ?? 0;
  const shown = $("tiles").children.length;
  $("more").hidden = !state.more;
  $("shown").textContent = count ? `${shown.toLocaleString("en")} of ${plural(count, "picture")}` : "No picture yet.";
}

function tile(item) {
  const name = nameOf(item);
  const title = `${item.path ?? name}, ${item.width} × ${item.height}`;
  const link = el("a", { className: "pick", href: `#/search?q=${item.id}`, title }, thumbnail(item.thumbnail));
  link.setAttribute("aria-label", `Search for ${name}`);
  const button = el("button", { type: "button", className: "remove", textContent: "✕", title: `Remove ${name}` });
  button.setAttribute("aria-label", `Remove ${name}`);
  const node = el("li", { className: "tile" }, link, nameElement("span", {}, name), button);
  node.dataset.id = item.id;
  button.addEventListener("click", () => asked(item, () => remove(item, node)));
  return node;
}

/* Removing */

function asked(item, use) {
  const text = item.path
    ? `Searches no longer find it. The file of an indexed folder stays where it is: ${item.path}`
    : "Searches no longer find it, and the copy that the collection keeps is deleted. Had it come from an indexed " +
      "folder, its file would stay where it is.";
  confirmed(`Remove ${nameOf(item)}?`, text, use);
}

async function remove(item, node) {
  $("collection-alert").hidden = true;
  try {
    await api(within(`/v1/images/${item.id}`), { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) return refused(error, () => remove(item, node));
  }
  const next = node.nextElementSibling ?? node.previousElementSibling;
  // The page that follows is asked for by the last id, which must still be there.
  if (state.next === item.id) state.next = node.previousElementSibling?.dataset.id ?? null;
  node.remove();
  $("collection-status").textContent = `${nameOf(item)} is no longer in the collection.`;
  (next?.querySelector(".remove") ?? $("add-file")).focus();
  await loadInfo().catch(() => null);
}

/** Say what was refused; who may only look is not asked to change anything again. */
export function refused(error, retry = null, alert = $("collection-alert")) {
  if (error.code === "read_only_key") {
    error.message = READ_ONLY;
    $("add").hidden = true;
    for (const id of ["shelf", "tiles", "view-duplicates", "view-label"]) $(id).classList.add("read-only");
  }
  showFault(alert, error, retry);
}

$("more").addEventListener("click", browse);

/* Adding */

async function add(items, skipped = 0, into = collection()) {
  if (state.adding || $("add").hidden || !service.info?.collection) return;
  const left = skipped ? ` ${plural(skipped, "file")} skipped: not pictures.` : "";
  if (!items.length) {
    $("add-progress").textContent = `Nothing to add.${left}`;
    return;
  }
  const adding = (state.adding = new AbortController());
  let report = { done: 0, created: 0, known: 0, failed: [] };
  state.retry = [];
  state.into = into;
  $("collection-alert").hidden = true;
  $("add-again").hidden = true;
  $("add-errors").replaceChildren();
  $("add-running").hidden = false;
  $("add-drop").inert = true;
  const progress = (now) => {
    report = now;
    Object.assign($("add-bar"), { max: items.length, value: now.done });
    $("add-progress").textContent = `${now.done.toLocaleString("en")} of ${plural(items.length, "picture")}`;
    listFailed(now.failed);
  };
  progress(report);
  let ending = "";
  try {
    await addAll(items, service.info.limits, { collection: into, signal: adding.signal, onProgress: progress });
  } catch (error) {
    const cancelled = error.name === "AbortError";
    state.retry = error.left ?? [];
    ending = ` ${cancelled ? "Cancelled" : "Stopped"} with ${plural(state.retry.length, "picture")} to go.`;
    if (!cancelled) refused(error);
    if (!cancelled && !(error instanceof Fault)) console.error(error);
  }
  state.adding = null;
  state.retry.push(...report.failed.filter(({ error }) => error.again).map(({ item }) => item));
  $("add-running").hidden = true;
  $("add-drop").inert = false;
  $("add-again").hidden = !state.retry.length || $("add").hidden;
  $("add-again").textContent = `Try ${plural(state.retry.length, "picture")} again`;
  $("add-progress").textContent = `${plural(report.created, "picture")} added` +
    (report.known ? `, ${report.known.toLocaleString("en")} already there` : "") +
    (report.failed.length ? `, ${report.failed.length.toLocaleString("en")} refused` : "") + `${into === collection() ? "" : ` in ${into}`}.${ending}${left}`;
  if (report.created) await loadInfo().catch(() => null);
  if (report.created && state.loaded && !state.more) await browse();
}

function listFailed(failed) {
  const list = $("add-errors");
  for (const { item, error } of failed.slice(list.children.length)) {
    const text = error.message.startsWith(item.path) ? error.message : `${item.path}: ${error.message}`;
    const line = el("li", { textContent: text });
    if (error.requestId) line.append(el("small", { textContent: ` Request ${error.requestId}` }));
    list.append(line);
  }
}

$("add-cancel").addEventListener("click", () => state.adding?.abort());
$("add-again").addEventListener("click", () => add(state.retry, 0, state.into));
onChoice($("add-file"), (items) => add(items));
onChoice($("add-folder"), (items, _, skipped) => add(items, skipped));
onFiles("collection", (items, _, skipped) => add(items, skipped));
addEventListener("beforeunload", (event) => state.adding && event.preventDefault());

/** Show the pictures anew when the visitor comes back. */
export function forget() {
  Object.assign(state, { next: null, more: false, loaded: false, loading: null });
  $("more").disabled = false;
  $("collection-alert").hidden = true;
  $("tiles").replaceChildren();
  $("shown").textContent = "";
}

onCollection(forget);

onInfo((info) => {
  if (!info.collection) [$("none-title").textContent, $("none-text").textContent] = noneBecause(info);
  $("collection-none").hidden = info.collection !== null;
  $("collection-some").hidden = info.collection === null;
  paint();
  if (document.body.dataset.view === "collection") enter();
});
