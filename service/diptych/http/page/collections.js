// Which collection: the address names it (?collection=), every request is told, and the header lets the visitor choose.

import { $, el } from "./dom.js";

const named = () => new URLSearchParams(location.search).get("collection");
const listeners = [];
let chosen = named();

/** The name that requests give; null where the service knows which collection is meant. */
export const collection = () => chosen;

/** Call `listener` when another collection was chosen. */
export const onCollection = (listener) => listeners.push(listener);

/** A path of the service, in the chosen collection. */
export function within(path) {
  if (chosen === null) return path;
  return `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ collection: chosen })}`;
}

/** From now on it is this collection, also for who comes back to this address. */
export function choose(name, { replace = false } = {}) {
  // A stored picture in the address is one of the old collection, unless that was never chosen.
  const [view, parameters] = location.hash.split("?");
  const kept = replace || new URLSearchParams(parameters).get("q") === "file" ? location.hash : view;
  const query = name === null ? "" : `?${new URLSearchParams({ collection: name })}`;
  history[replace ? "replaceState" : "pushState"](null, "", `${location.pathname}${query}${kept}`);
  follow();
}

function follow() {
  if (chosen === named()) return;
  chosen = named();
  $("which-name").value = chosen ?? "default"; // now, not when /info answers: what is shown may be there before
  for (const listener of listeners) listener();
}

/** The summary of the collection that is meant, undefined if there is none: an item of `collections` in /info. */
export function current({ collections }) {
  const name = chosen ?? (collections.length === 1 ? collections[0].name : "default");
  return collections.find((one) => one.name === name);
}

/** Why /info has no figures of a collection: [title, text]. */
export function noneBecause(info) {
  const { name, fault } = current(info) ?? {};
  if (fault) return [`The collection ${name} is damaged`, `It could not be opened: ${fault}`];
  if (info.collections_fixed) {
    const text = "This service compares pictures and keeps none. To search, start it with a store: " +
      "diptych serve --store FOLDER";
    return ["There is no collection here", text];
  }
  return ["There is no collection yet", "Make one in the view Collection, or by POST to /v1/collections."];
}

/** Let the visitor choose where there are several; where none is meant, the first is. */
export function offer(info) {
  const all = info.collections;
  $("which").hidden = all.length < 2;
  if (all.length > 1 && !current(info)) {
    choose((all.find((one) => !one.fault) ?? all[0]).name, { replace: true });
    return;
  }
  const words = all.map(({ name, fault }) => (fault ? `${name} (damaged)` : name));
  const select = $("which-name");
  // Rebuilt, an open list would close under the visitor's hand.
  if (words.join() !== [...select.options].map((option) => option.textContent).join()) {
    select.replaceChildren(...all.map(({ name }, index) => el("option", { value: name, textContent: words[index] })));
  }
  select.value = current(info)?.name ?? "";
}

$("which-name").addEventListener("change", () => choose($("which-name").value));
addEventListener("popstate", follow);
