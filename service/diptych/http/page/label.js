// Label: one pair at a time, and a person's answer to it; the keyboard alone suffices.

import { Fault, api, onInfo, post, service } from "./api.js";
import { refused } from "./collection.js";
import { collection, noneBecause, onCollection, within } from "./collections.js";
import { $, el, nameOf, plural, showProgress, thumbnail } from "./dom.js";

const BATCH = 10;
const FEWEST = 20;
const FEWEST_OF_A_KIND = 5;
const ASK = {
  copy: "Is one a copy of the other, or are both copies of a third?",
  thing: "Do both show the same thing?",
};
const SAID = { same: "the same", different: "not the same", "cannot tell": "cannot tell" };
const KEYS = { s: "same", 1: "same", d: "different", 2: "different", "?": "cannot tell", 3: "cannot tell" };
// `queue`: pairs to ask about, the first is shown; `given`: [pair, answer] of this visit, the latest last.
const state = { asking: null, busy: false, question: "copy", queue: [], given: [], counts: null, all: false };

export function enter() {
  paint();
  if (service.info?.collection && !state.queue.length && !state.all) more();
}

export function leave() {
  state.asking?.abort();
  state.asking = null;
}

/* Asking the service */

async function more() {
  if (state.asking) return;
  const asking = (state.asking = new AbortController());
  $("label-alert").hidden = true;
  say("Looking for the pairs that teach most…");
  paint();
  try {
    let answer;
    do {
      answer = await post("/v1/pairs/next", { question: state.question, count: BATCH }, asking.signal);
      if (asking.signal.aborted) return;
      const progress = showProgress($("label-bar"), answer);
      if (!answer.complete) say(progress);
    } while (!answer.complete);
    Object.assign(state, { queue: answer.data, counts: answer.labels, all: answer.data.length === 0 });
    say(counted());
  } catch (error) {
    if (error.name !== "AbortError") fault(error, more);
  } finally {
    if (state.asking === asking) state.asking = null;
    paint();
  }
}

/** Do one thing at a time: a key pressed twice must not label two pairs. */
async function alone(use) {
  if (state.busy || state.asking) return;
  state.busy = true;
  $("label-alert").hidden = true;
  try {
    await use();
  } catch (error) {
    fault(error);
  } finally {
    state.busy = false;
  }
  if (!state.queue.length && !state.all) more();
}

function give(answer) {
  const [pair] = state.queue;
  if (!pair) return;
  const asked = collection();
  alone(async () => {
    await post("/v1/pairs/labels", { a: pair.a.id, b: pair.b.id, answer, question: state.question });
    if (asked !== collection()) return;
    state.queue.shift();
    state.given.push([pair, answer]);
    count(answer, 1);
    say(`${capital(SAID[answer])}: ${nameOf(pair.a)} and ${nameOf(pair.b)}. ${counted()}`);
    paint();
  });
}

function undo() {
  const last = state.given.at(-1);
  if (!last) return;
  const [pair, answer] = last;
  alone(async () => {
    const parameters = new URLSearchParams({ a: pair.a.id, b: pair.b.id, question: state.question });
    await api(within(`/v1/pairs/labels?${parameters}`), { method: "DELETE" });
    if (state.given.at(-1) !== last) return;
    state.given.pop();
    state.queue.unshift(pair);
    state.all = false;
    count(answer, -1);
    say(`Taken back: ${SAID[answer]}. ${counted()}`);
    paint();
  });
}

function fault(error, retry = null) {
  say("");
  refused(error, retry, $("label-alert"));
  if (!(error instanceof Fault)) console.error(error);
}

/* What is shown */

const say = (text) => ($("label-status").textContent = text);
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function count(answer, by) {
  const key = answer.replace(" ", "_");
  state.counts = { ...state.counts, [key]: state.counts[key] + by };
}

function counted() {
  const { same, different, cannot_tell: open } = state.counts;
  return `${plural(same + different + open, "label")}: ${same} same, ${different} not the same, ${open} cannot tell.`;
}

/** What the answers are good for by now: `diptych calibrate` takes none below these numbers. */
function next() {
  const { same, different } = state.counts;
  const missing = Math.max(FEWEST - same - different, Math.max(0, FEWEST_OF_A_KIND - same) + Math.max(0, FEWEST_OF_A_KIND - different));
  if (missing > 0)
    return [`At least ${plural(missing, "more answer")} for a calibration of your own: it takes ${FEWEST} in all, ` +
      `${FEWEST_OF_A_KIND} of them the same and ${FEWEST_OF_A_KIND} not the same.`];
  const command = el("code", { textContent: "diptych calibrate --store FOLDER" });
  return ["Enough for a calibration of your own: run ", command, " with the folder of this collection, then restart the service, which reads it at its start."];
}

function paint() {
  const [pair] = state.queue;
  const asking = state.asking !== null;
  $("label-bar").hidden = !asking;
  $("label-pair").hidden = !pair;
  $("label-done").hidden = !state.all || asking;
  $("label-undo").hidden = !state.given.length;
  $("label-export").hidden = $("label-next").hidden = !state.counts;
  if (state.counts) $("label-next").replaceChildren(...next());
  $("label-export").href = within("/v1/pairs/labels/export");
  $("label-ask").textContent = ASK[state.question];
  if (pair && $("label-pictures").dataset.pair !== `${pair.a.id} ${pair.b.id}`) {
    $("label-pictures").dataset.pair = `${pair.a.id} ${pair.b.id}`;
    $("label-pictures").replaceChildren(figure(pair.a, "Picture A"), figure(pair.b, "Picture B"));
  }
}

function figure(picture, role) {
  const size = picture.thumbnail.includes("?") ? "&side=1024" : "?side=1024";
  // Without its name: "copy of cat.jpg" would give the answer.
  const link = el("a", { href: picture.content, target: "_blank", rel: "noopener" }, thumbnail(picture.thumbnail + size, role));
  link.setAttribute("aria-label", `Open ${role} in a new tab`);
  return el("figure", {}, link,
    el("figcaption", {}, el("span", { className: "name", textContent: role }),
      el("span", { textContent: `${picture.width} × ${picture.height}` })));
}

/** Begin anew, for another question or another collection. */
function reset() {
  leave();
  Object.assign(state, { queue: [], given: [], counts: null, all: false });
  $("label-alert").hidden = true;
  say("");
}

for (const button of $("label-answers").querySelectorAll("button")) {
  button.addEventListener("click", () => give(button.value));
}
$("label-undo").addEventListener("click", undo);
$("label-question").addEventListener("change", () => {
  reset();
  state.question = $("label-question").value;
  enter();
});
addEventListener("keydown", (event) => {
  if (document.body.dataset.view !== "label" || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target.closest("select, input, textarea, dialog")) return;
  const key = event.key.toLowerCase();
  if (KEYS[key]) give(KEYS[key]);
  else if (key === "u" || key === "backspace") undo();
  else return;
  event.preventDefault();
});

onCollection(reset);
onInfo((info) => {
  if (!info.collection) [$("label-none-title").textContent, $("label-none-text").textContent] = noneBecause(info);
  $("label-none").hidden = info.collection !== null;
  $("label-some").hidden = info.collection === null;
  $("label-which").hidden = Object.keys(info.questions).length < 2;
  if (document.body.dataset.view === "label") enter();
});
