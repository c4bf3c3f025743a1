// The shelf: make a collection, remove the one that is looked at, where the service keeps several.

import { Fault, api, loadInfo, onInfo, service } from "./api.js";
import { refused } from "./collection.js";
import { choose, current } from "./collections.js";
import { $, confirmed, plural } from "./dom.js";

let busy = false;

async function alone(use) {
  if (busy) return;
  busy = true;
  $("collection-alert").hidden = true;
  $("shelf-status").textContent = "";
  try {
    await use();
  } catch (error) {
    refused(error);
    if (!(error instanceof Fault)) console.error(error);
  } finally {
    busy = false;
  }
}

async function make() {
  const name = $("shelf-name").value;
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name }) };
  await api("/v1/collections", options);
  $("shelf-form").reset();
  await loadInfo();
  choose(name);
  $("shelf-status").textContent = `This is ${name} now.`;
}

async function remove({ name, pictures }) {
  await api(`/v1/collections/${name}?${new URLSearchParams({ pictures })}`, { method: "DELETE" });
  choose(null, { replace: true });
  await loadInfo();
  $("shelf-status").textContent = `${name} is gone.`;
  $("shelf-name").focus();
}

$("shelf-form").addEventListener("submit", (event) => {
  event.preventDefault();
  alone(make);
});

$("shelf-remove").addEventListener("click", () => {
  const meant = current(service.info);
  const text = `${plural(meant.pictures, "picture")} and all that the collection keeps of them are deleted for good. ` +
    "Files of indexed folders stay where they are.";
  confirmed(`Remove the collection ${meant.name}?`, text, () => alone(() => remove(meant)));
});

onInfo((info) => {
  const meant = current(info);
  $("shelf").hidden = info.collections_fixed;
  $("shelf-remove").hidden = !meant || meant.fault !== null;
  $("shelf-remove").textContent = `Remove the collection ${meant?.name}`;
});
