// The page's frame: which view the address names, and what every view shows of the service.

import { onInfo } from "./api.js";
import { current, offer, onCollection } from "./collections.js";
import { $, plural } from "./dom.js";
import * as collection from "./collection.js";
import * as compare from "./compare.js";
import * as duplicates from "./duplicates.js";
import * as label from "./label.js";
import * as search from "./search.js";
import "./shelf.js";
import * as status from "./status.js";

const VIEWS = new Map(Object.entries({ search, compare, duplicates, label, collection, status }));
let shown = null;

function route() {
  const [name, parameters = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const wanted = VIEWS.has(name) ? name : "search";
  if (shown !== wanted) {
    VIEWS.get(shown)?.leave();
    shown = document.body.dataset.view = wanted;
    for (const view of VIEWS.keys()) {
      $(`view-${view}`).hidden = view !== wanted;
      $(`to-${view}`).toggleAttribute("aria-current", view === wanted);
      if (view === wanted) $(`to-${view}`).setAttribute("aria-current", "page");
    }
    document.title = `${$(`to-${wanted}`).textContent} · Diptych`;
    scrollTo(0, 0);
  }
  VIEWS.get(wanted).enter(new URLSearchParams(parameters));
}

onInfo((info) => {
  const provider = info.provider.replace("ExecutionProvider", "");
  $("model").textContent = `${info.model} ${info.revision.slice(0, 12)} on ${provider}, diptych ${info.version}`;
  const none = current(info)?.fault ? "damaged" : "no collection";
  $("facts").textContent = info.collection ? plural(info.collection.pictures, "picture") : none;
  offer(info);
});

// Behind the views' own listeners, which forget what they had of the old collection.
onCollection(() => {
  route();
  search.retryInfo();
});

// The address belongs to the views, so this link may not change it.
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
addEventListener("hashchange", route);
route();
search.retryInfo();
