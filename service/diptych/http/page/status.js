// Status: what is served and whether it is well, asked again every few seconds while somebody looks.

import { Fault, api, loadInfo } from "./api.js";
import { current, noneBecause } from "./collections.js";
import { $, bytes, el, fact, plural, probability, showFault } from "./dom.js";

const EVERY = 4000;
let timer = null;
let running = null;

export function enter() {
  leave();
  refresh();
}

export function leave() {
  clearTimeout(timer);
  running?.abort();
  timer = running = null;
}

async function refresh() {
  const mine = (running = new AbortController());
  try {
    const [info, ready] = await Promise.all([
      loadInfo(mine.signal),
      api("/readyz", { signal: mine.signal }).catch((error) => {
        if (error.status === 503) return error;
        throw error;
      }),
    ]);
    if (mine.signal.aborted) return;
    $("status-alert").hidden = true;
    $("status-cards").classList.remove("stale");
    light(ready);
    $("status-cards").replaceChildren(...cards(info, ready));
    $("status-time").textContent = `Checked at ${new Date().toLocaleTimeString("en-GB")}, and again every ${EVERY / 1000} seconds`;
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return;
    if (!(error instanceof Fault)) console.error(error);
    $("status-cards").classList.add("stale");
    say("No answer", "bad");
    // Only what is new is said again.
    const old = $("status-alert").hidden ? null : $("status-alert").firstChild.textContent;
    if (old !== error.message) showFault($("status-alert"), error);
  }
  timer = setTimeout(refresh, EVERY);
}

function light(ready) {
  if (ready instanceof Fault) say(ready.message, "bad");
  else {
    const damaged = ready.damaged.length ? ` Damaged: ${ready.damaged.join(", ")}.` : "";
    say(`Ready: a test pair has its right score, and no request hangs.${damaged}`, "good");
  }
}

function say(text, kind) {
  const node = $("status-ready");
  if (node.textContent !== text) node.textContent = text;
  node.className = `ready ${kind}`;
}

function card(title, ...facts) {
  return el("section", { className: "card" }, el("h3", { textContent: title }), el("dl", {}, ...facts));
}

/** The calibration in force, in words. */
function calibrated(own) {
  if (!own) return "as released";
  const labels = Object.values(own.questions).reduce((sum, { same, different }) => sum + same + different, 0);
  return `your own, of ${own.made.slice(0, 10)}, from ${plural(labels, "label")}`;
}

function cards(info, ready) {
  const number = (value) => value.toLocaleString("en");
  const { limits, collection } = info;
  const warm = ready instanceof Fault ? [] : [
    fact("warm-up", `${ready.warm_up_seconds.toFixed(2)} s`),
    fact("raw score of a picture with itself", ready.same.toFixed(2)),
    fact("raw score of two different pictures", ready.other.toFixed(2)),
  ];
  const stated = Object.entries(info.questions).flatMap(([question, { verdicts }]) =>
    Object.entries(verdicts).map(([verdict, least]) => fact(`${question}: ${verdict} from`, probability(least))));
  return [
    card("Model",
      fact("name", info.model), fact("revision", info.revision.slice(0, 12)), fact("picture side", `${info.panel_size} px`),
      fact("embedding", `${info.embedding_dim} numbers`), fact("calibration", calibrated(info.calibration)), ...stated),
    card("Running on",
      fact("provider", info.provider.replace("ExecutionProvider", "")), fact("attention", info.attention_path),
      fact("pairs", info.pair_path),
      fact("threads", number(info.threads)), fact("diptych", info.version), ...warm),
    collection
      ? card(info.collections.length > 1 ? `Collection ${current(info)?.name}` : "Collection",
        fact("pictures", number(collection.pictures)), fact("with their originals", number(collection.kept)),
        fact("in the index", number(collection.index.count)),
        ...(collection.server
          ? [fact("server", collection.server), fact("address", collection.directory, "wide")]
          : [fact("on disk", bytes(collection.disk_bytes)), fact("changes so far", number(collection.sequence)),
            fact("folder", collection.directory, "wide")]))
      : card("Collection", fact("none", noneBecause(info)[0])),
    card("Limits",
      fact("request", `${plural(limits.pictures, "picture")}, ${bytes(limits.body_bytes)}`),
      fact("time of a request", `${number(limits.seconds)} s`),
      fact("picture", `${bytes(limits.picture_bytes)}, ${number(limits.picture_pixels / 1e6)} megapixels`),
      fact("shortest side", `${limits.picture_side} px or more`),
      fact("search", `${plural(limits.top, "match", "es")}, ${plural(limits.candidates, "candidate")}`),
      fact("concurrent requests", `${number(limits.workers)}, and ${number(limits.waiting)} waiting`),
      fact("pairs waiting", number(limits.pairs))),
  ];
}

document.addEventListener("visibilitychange", () => {
  if (document.body.dataset.view !== "status") return;
  if (document.hidden) leave();
  else enter();
});
