// Duplicates: look for groups of the same photo, move the threshold, choose what to keep, remove the rest.

import { Fault, api, loadInfo, onInfo, post, service } from "./api.js";
import { forget, refused } from "./collection.js";
import { noneBecause, onCollection, within } from "./collections.js";
import { drawGroup, drawPair } from "./copies.js";
import { $, confirmed, el, nameOf, odds, plural, probability, showFault, showProgress } from "./dom.js";

const STEP = 30; // groups drawn at a time
const STEPS = 400; // of the slider
const EXAMPLES = 3;
const state = { asking: null, begun: false, found: null, removing: false };
// Of what was found: `pictures` in the order to keep, `pairs` of their places, the surest first, `matches` of both ways.
// `kept`: place -> when it was made the one to keep; `ticked`: place -> whether it goes, by hand.
let at = null;

export function enter() {
  paint();
}

/** Nobody waits for an answer any more, so nothing more is asked. */
export function leave() {
  state.asking?.abort();
}

/* Looking */

async function look() {
  if (state.asking || state.removing) return;
  const asking = (state.asking = new AbortController());
  state.begun = true;
  $("duplicates-alert").hidden = true;
  $("look-found").hidden = true;
  state.found = at = null;
  say("Comparing…");
  paint();
  try {
    let answer;
    do {
      answer = await post("/v1/duplicates", {}, asking.signal);
      if (asking.signal.aborted) return;
      say(showProgress($("look-bar"), answer));
    } while (!answer.complete);
    state.begun = false;
    const { taken } = answer.closer_looks;
    say(`${plural(answer.total, "pair")} compared${taken ? `, ${taken.toLocaleString("en")} looked at closely` : ""}`);
    show(answer);
  } catch (error) {
    if (error.name !== "AbortError") showFault($("duplicates-alert"), error, look);
    if (error.name !== "AbortError" && !(error instanceof Fault)) console.error(error);
    if (state.asking === asking) say("");
  } finally {
    if (state.asking === asking) state.asking = null;
    paint();
  }
}

const say = (text) => ($("look-status").textContent = text);

function paint() {
  const info = service.info;
  const count = info?.collection?.pictures ?? 0;
  $("look").textContent = state.found ? "Search again" : state.begun ? "Continue" : `Find duplicates among ${plural(count, "picture")}`;
  $("look").disabled = count === 0;
  $("look").hidden = state.asking !== null;
  $("look-stop").hidden = $("look-bar").hidden = state.asking === null;
}

/* What was found */

function show(answer) {
  state.found = answer;
  at = { pictures: answer.pictures, pairs: answer.pairs, kept: new Map(), ticked: new Map(), groups: [], drawn: 0 };
  at.threshold = Math.max(answer.threshold, answer.bound);
  at.low = odds(answer.bound);
  at.high = Math.max(odds(0.999999), odds(at.threshold) + 1);
  at.start = Math.round((STEPS * (odds(at.threshold) - at.low)) / (at.high - at.low));
  $("threshold").value = at.start;
  $("left-out").hidden = !answer.left_out;
  $("left-out").textContent = `${plural(answer.left_out, "less certain pair")} more, too many to show at once. Remove some and search again.`;
  at.said = new Map(answer.groups.flatMap((group) => group.members.map((one) => [one.id, one])));
  at.keepers = new Set(answer.groups.map(({ keeper }) => keeper));
  index();
  regroup();
  $("look-found").hidden = false;
}

function index() {
  at.matches = matchesOf(at.pictures.length, at.pairs);
  at.files = at.pictures.map((_, place) => [place]);
}

function regroup() {
  const { threshold } = at;
  at.groups = grouped(at.matches, at.files, threshold).map(makeGroup);
  at.drawn = 0;
  $("groups").replaceChildren();
  $("threshold-value").textContent = probability(threshold);
  $("as-found").hidden = Number($("threshold").value) === at.start;
  draw();
  count();
  const passing = at.pairs.findIndex(([, , score]) => score < threshold);
  const border = passing < 0 ? at.pairs.length : passing;
  const pair = ([a, b, score]) => drawPair([at.pictures[a], at.pictures[b], score]);
  fill("pass", at.pairs.slice(Math.max(0, border - EXAMPLES), border).reverse().map(pair));
  fill("fail", at.pairs.slice(border, border + EXAMPLES).map(pair));
}

function fill(id, nodes) {
  $(id).replaceChildren(...(nodes.length ? nodes : [el("li", { textContent: "None." })]));
}

/** A group of places as what is drawn, its keeper first: the one chosen last by hand, or else the one found to be it. */
function makeGroup(places) {
  const first = places.find((place) => at.keepers.has(at.pictures[place].id)) ?? places[0];
  const keeper = places.reduce((best, one) => ((at.kept.get(one) ?? 0) > (at.kept.get(best) ?? 0) ? one : best), first);
  const near = new Map(places.map((place) => [at.pictures[place].id, at.pictures[place]]));
  const chosen = at.kept.has(keeper);
  const members = [keeper, ...places.filter((one) => one !== keeper)].map((place) => {
    const found = chosen ? (at.matches[keeper].get(place) ?? null) : scoreIn(places, keeper, place, at.matches, at.threshold);
    const score = place === keeper ? 1 : found;
    const passes = score !== null && score >= at.threshold;
    const picture = at.pictures[place];
    const said = at.said.get(picture.id);
    const suggested = chosen ? passes && place !== keeper : near.has(said?.replaced_by);
    const going = at.ticked.get(place) ?? suggested;
    const verdict = verdictOf(state.found.verdicts, score);
    const stands = near.get(said?.replaced_by);
    const other = stands && stands.id !== at.pictures[keeper].id && `kept for it: ${nameOf(stands)}`;
    const left = !suggested && said?.kept_because && `left to you: ${said.kept_because}`;
    const notes = chosen ? [] : [said?.edit, other, left].filter(Boolean);
    return { place, picture, score, verdict, passes, keeper: place === keeper, going, notes };
  });
  const replaced = members.map(({ picture }) => at.said.get(picture.id)).filter((said) => said?.replaced_by === members[0].picture.id);
  members[0].reasons = chosen ? ["chosen by you"] : [...new Set(replaced.map((said) => said.kept_because))];
  return { places, members };
}

const going = () => at.groups.flatMap(({ members }) => members.filter((one) => one.going));

function draw() {
  const more = at.groups.slice(at.drawn, at.drawn + STEP);
  $("groups").append(...more.map((_, number) => node(at.drawn + number)));
  at.drawn += more.length;
  $("groups-more").hidden = at.drawn >= at.groups.length;
}

function node(number) {
  return drawGroup(at.groups[number], ({ tick, keep }) => {
    const picture = keep ?? tick[0];
    const place = at.groups[number].members.find((one) => one.picture === picture).place;
    if (keep) at.kept.set(place, performance.now());
    if (keep) for (const one of at.groups[number].places) at.ticked.delete(one);
    if (tick) at.ticked.set(place, tick[1]);
    at.groups[number] = makeGroup(at.groups[number].places);
    $("groups").children[number].replaceWith(node(number));
    count();
    const target = keep ? ".copy:not(.keeper) input" : `.copy[data-id="${picture.id}"] input`;
    $("groups").children[number].querySelector(target).focus();
  });
}

function count() {
  const pictures = going().length;
  const groups = at.groups.length;
  $("groups-summary").textContent = groups
    ? `${plural(groups, "group")}, ${plural(pictures, "picture")} selected`
    : "No two pictures reach this probability.";
  $("remove-selected").textContent = `Remove ${plural(pictures, "picture")} from the collection`;
  $("chosen-buttons").hidden = groups === 0;
  $("remove-selected").disabled = pictures === 0 || state.removing;
}

/* Removing */

function ask() {
  const chosen = going();
  const title = `Remove ${plural(chosen.length, "picture")} from the collection?`;
  const text = "Searches no longer find these pictures, and the copies that the collection keeps of them are deleted. " +
    "Files of indexed folders stay where they are.";
  // The visitor said yes to these pictures of this collection, whichever is looked at when they go.
  const paths = chosen.map(({ picture }) => [picture.id, within(`/v1/images/${picture.id}`)]);
  confirmed(title, text, () => remove(paths, at));
}

async function remove(paths, mine) {
  if (state.removing) return;
  state.removing = true;
  $("remove-selected").disabled = true;
  $("duplicates-alert").hidden = true;
  const gone = new Set();
  try {
    for (const [id, path] of paths) {
      await api(path, { method: "DELETE" }).catch((error) => {
        if (error.code !== "unknown_image") throw error;
      });
      gone.add(id);
      if (at === mine) say(`${gone.size.toLocaleString("en")} of ${plural(paths.length, "picture")} removed`);
    }
  } catch (error) {
    refused(error, () => remove(paths.filter(([id]) => !gone.has(id)), at), $("duplicates-alert"));
    if (!(error instanceof Fault)) console.error(error);
  }
  state.removing = false;
  forget();
  if (at === mine) without(gone);
  if (at === mine) (gone.size ? $("look") : $("select-others")).focus();
  await loadInfo().catch(() => null);
}

/** Take pictures out of what was found; what the visitor chose of the others stays. */
function without(gone) {
  const place = new Map();
  at.pictures.forEach(({ id }, old) => gone.has(id) || place.set(old, place.size));
  const moved = (map) => new Map([...map].filter(([old]) => place.has(old)).map(([old, value]) => [place.get(old), value]));
  at.pictures = at.pictures.filter(({ id }) => !gone.has(id));
  at.pairs = at.pairs.filter(([a, b]) => place.has(a) && place.has(b)).map(([a, b, score]) => [place.get(a), place.get(b), score]);
  Object.assign(at, { kept: moved(at.kept), ticked: moved(at.ticked) });
  index();
  regroup();
}

function selectAll(on) {
  at.ticked.clear();
  if (!on) at.pictures.forEach((_, place) => at.ticked.set(place, false));
  regroup();
}

$("look").addEventListener("click", look);
$("look-stop").addEventListener("click", () => {
  leave();
  $("look").hidden = false;
  $("look").focus();
});
$("sure").addEventListener("submit", (event) => event.preventDefault());
$("threshold").addEventListener("input", () => {
  const step = Number($("threshold").value);
  // The threshold that the groups were found with lies between two steps of the slider.
  const found = Math.max(state.found.threshold, state.found.bound);
  at.threshold = step === at.start ? found : 1 / (1 + Math.exp(-(at.low + (step / STEPS) * (at.high - at.low))));
  regroup();
});
$("as-found").addEventListener("click", () => {
  $("threshold").value = at.start;
  at.threshold = Math.max(state.found.threshold, state.found.bound);
  regroup();
  $("threshold").focus();
});
$("groups-more").addEventListener("click", draw);
$("select-others").addEventListener("click", () => selectAll(true));
$("select-none").addEventListener("click", () => selectAll(false));
$("remove-selected").addEventListener("click", ask);

onCollection(() => {
  leave();
  Object.assign(state, { asking: null, begun: false, found: null });
  at = null;
  $("look-found").hidden = $("duplicates-alert").hidden = true;
  say("");
});
onInfo((info) => {
  if (!info.collection) [$("duplicates-none-title").textContent, $("duplicates-none-text").textContent] = noneBecause(info);
  $("duplicates-none").hidden = info.collection !== null;
  $("duplicates-some").hidden = info.collection === null;
  paint();
});
