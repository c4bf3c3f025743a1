// The report's page. Its data: pictures in the order to keep, pairs of contents, and thumbnails by content.

const $ = (id) => document.getElementById(id);
const found = JSON.parse($("found").textContent);
const pictures = found.pictures.map(
  ([root, path, bytes, width, height, format, time, content, reference, instead, reason, edit], place) => ({
    path: found.roots[root] + path, name: path, bytes, width, height, format, time, content, reference, instead, reason, edit, place,
  }),
);
const files = Array.from({ length: found.contents }, () => []);
for (const picture of pictures) files[picture.content].push(picture);
const matches = matchesOf(found.contents, found.pairs);
const keepers = new Set(found.keepers.map((place) => pictures[place]));

const STEP = 30; // groups drawn at a time
const hashed = found.method === "phash";
const LOW = odds(found.bound);
const HIGH = hashed ? Math.max(odds(64 / 65 - 1e-5), LOW + 0.1) : Math.max(odds(0.999999), odds(found.threshold) + 1);
const state = { threshold: found.threshold, groups: [], shown: [], drawn: 0 };
const kept = new Map(); // a picture that was made the one to keep -> when
const ticked = new Map(); // a picture -> whether it was selected by hand
// A picture in a reference folder is never selected.
let selected = (picture, group) => !picture.reference && (ticked.get(picture) ?? suggested(picture, group));

function odds(share) {
  return Math.log(share / (1 - Math.min(share, 1 - 1e-9)));
}

function el(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
// The score of two hashes is (64 - bits that differ) / 65, rounded.
const bits = (score) => Math.max(0, Math.floor(64 - 65 * score + 1e-4));
const sureness = (score) => (hashed ? `${bits(score)} of 64 bits differ` : `score ${probability(score)}`);
const probability = (value) => (value < 0.99 ? value.toFixed(3) : value > 0.999995 ? "> 0.99999" : value.toFixed(5));

function size(bytes) {
  const [value, unit] = bytes < 1e6 ? [bytes / 1e3, "kB"] : bytes < 1e9 ? [bytes / 1e6, "MB"] : [bytes / 1e9, "GB"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

/** A group as pictures; the one to keep is the one chosen last by hand, else the one that was found to be it. */
function makeGroup(contents) {
  const members = contents.flatMap((content) => files[content]);
  const first = members.find((one) => keepers.has(one)) ?? members[0];
  const keeper = members.reduce((best, one) => ((kept.get(one) ?? 0) > (kept.get(best) ?? 0) ? one : best), first);
  const score = kept.has(keeper)
    ? (content) => matches[keeper.content].get(content) ?? null
    : (content) => scoreIn(contents, keeper.content, content, matches, state.threshold);
  const scores = new Map(members.map((one) => [one, one.content === keeper.content ? 1 : score(one.content)]));
  const ordered = [keeper, ...members.filter((one) => one !== keeper)];
  return { keeper, members: ordered, scores, exact: contents.length === 1 };
}

const passes = (score) => score !== null && (score === 1 || score >= state.threshold);
const stand = (picture, group) => group.members.find((one) => one.place === picture.instead);
// What another picture of the group stands for; or all that match one that was chosen by hand.
const suggested = (picture, group) =>
  kept.has(group.keeper) ? picture !== group.keeper && passes(group.scores.get(picture)) : Boolean(stand(picture, group));

/** Why the one to keep is kept and not the others for which it stands, each reason once. */
function reasons(group) {
  if (kept.has(group.keeper)) return "chosen by you";
  return [...new Set(group.members.filter((one) => stand(one, group) === group.keeper).map((one) => one.reason))].join(", ");
}

/** What is said of a picture beside the one to keep. */
function told(picture, group) {
  const score = group.scores.get(picture);
  const original = stand(picture, group);
  if (original?.content === picture.content) return `exact copy of ${original.name}`;
  if (!passes(score)) return "does not match the one to keep";
  const match = `${verdictOf(found.verdicts, score)}, ${sureness(score)}`;
  if (kept.has(group.keeper)) return match;
  const others = original && original !== group.keeper && `kept for it: ${original.name}`;
  return [match, picture.edit, others, !original && picture.reason && `left to you: ${picture.reason}`].filter(Boolean).join("; ");
}

const going = (group) => group.members.filter((picture) => selected(picture, group));
const saved = (group) => going(group).reduce((sum, picture) => sum + picture.bytes, 0);
const least = (group) => Math.min(...group.members.map((picture) => group.scores.get(picture) ?? 0));

const ORDERS = {
  path: (a, b) => (a.keeper.path < b.keeper.path ? -1 : 1),
  bytes: (a, b) => saved(b) - saved(a),
  unsure: (a, b) => least(a) - least(b),
  count: (a, b) => b.members.length - a.members.length,
};

function regroup() {
  state.groups = grouped(matches, files, state.threshold).map(makeGroup);
  $("threshold-value").textContent = hashed ? bits(state.threshold) : probability(state.threshold);
  $("as-found").hidden = state.threshold === found.threshold;
  choose();
}

function choose() {
  const words = $("words").value.trim().toLowerCase();
  const kind = $("kind").value;
  state.shown = state.groups.filter(
    (group) =>
      (kind === "all" || group.exact === (kind === "exact")) &&
      (!words || group.members.some((picture) => picture.path.toLowerCase().includes(words))),
  );
  // What orders them may depend on the selection, but a tick must not move the group under the pointer.
  state.shown.sort((a, b) => ORDERS[$("sort").value](a, b) || ORDERS.path(a, b));
  state.drawn = 0;
  $("groups").replaceChildren();
  draw();
  count();
}

function draw() {
  const more = state.shown.slice(state.drawn, state.drawn + STEP);
  $("groups").append(...more.map(drawGroup));
  state.drawn += more.length;
  $("more").hidden = state.drawn >= state.shown.length;
  $("empty").hidden = state.shown.length > 0;
  $("empty-text").textContent = state.groups.length
    ? "No group has such a path or is of this kind."
    : "Nothing matches as surely as that. Move the slider to the left to be less sure.";
}

/** Counts what is selected in the groups that are shown: that is what is saved. */
function count() {
  const all = state.shown.flatMap(going);
  const bytes = all.reduce((sum, picture) => sum + picture.bytes, 0);
  $("summary").replaceChildren(
    el("b", { textContent: plural(state.shown.length, "group") }), ", ",
    el("b", { textContent: plural(all.length, "picture") }), ` selected, ${size(bytes)}`,
  );
  $("save-list").disabled = all.length === 0;
}

function drawGroup(group) {
  const node = el("li", { className: group.members.length > 2 ? "group many" : "group" });
  fillGroup(node, group);
  return node;
}

function fillGroup(node, group) {
  const head = el("p", { className: "group-head" });
  head.append(el("b", { textContent: plural(group.members.length, "picture") }));
  head.append(el("span", { textContent: group.exact ? "exact copies" : `least sure ${hashed ? sureness(least(group)) : probability(least(group))}` }));
  head.append(el("span", { textContent: `${size(saved(group))} selected` }));
  node.setAttribute("aria-label", `Group of ${group.keeper.name}`);
  node.replaceChildren(head, el("div", { className: "copies" }, ...group.members.map((one) => drawCopy(node, group, one))));
}

function drawCopy(node, group, picture) {
  const isKeeper = picture === group.keeper;
  const isGoing = selected(picture, group);
  const score = group.scores.get(picture);
  const redraw = (what) => {
    fillGroup(node, Object.assign(group, what));
    count();
    node.querySelector(`[data-picture="${picture.place}"] :is(input, button)`)?.focus();
  };
  const tick = el("input", { type: "checkbox", checked: isGoing });
  tick.setAttribute("aria-label", `Select ${picture.name}`);
  tick.onchange = () => {
    ticked.set(picture, tick.checked);
    redraw({});
  };
  const thumb = el("div", { className: "thumb", onclick: () => picture.reference || tick.click() });
  const data = $(`t${picture.content}`)?.textContent;
  if (data) thumb.append(el("img", { alt: "", loading: "lazy", decoding: "async", src: `data:image/webp;base64,${data}` }));
  else thumb.append("no picture");
  const link = el("a", { className: "name", textContent: picture.name, title: picture.path });
  link.href = "file://" + picture.path.split("/").map(encodeURIComponent).join("/");
  const line = el("div", { className: "state" });
  if (picture.reference) line.append(el("span", { textContent: "in a reference folder, stays" }));
  else line.append(el("label", {}, tick, isGoing ? "goes" : isKeeper ? "kept" : "stays"));
  if (!isKeeper) {
    const keep = el("button", { type: "button", className: "quiet", textContent: "Keep this" });
    keep.setAttribute("aria-label", `Keep ${picture.name} instead`);
    keep.onclick = () => {
      kept.set(picture, performance.now());
      for (const one of group.members) ticked.delete(one);
      const contents = [...new Set(group.members.map((one) => one.content))].sort((a, b) => a - b);
      redraw(makeGroup(contents));
    };
    line.append(keep);
  }
  const facts = [`${picture.width} × ${picture.height}`, size(picture.bytes), picture.format].join(", ");
  const why = isKeeper ? reasons(group) : "";
  const match = isKeeper
    ? el("span", { className: "tag", textContent: why ? `the one to keep: ${why}` : "the others are compared with this one" })
    : el("span", { className: passes(score) ? "" : "differs", textContent: told(picture, group) });
  const classes = ["copy", isKeeper && "keeper", isGoing && "going", picture.reference && "reference"].filter(Boolean).join(" ");
  const copy = el("div", { className: classes }, thumb, link, el("span", { textContent: facts }),
    el("span", { textContent: picture.time }), match, line);
  copy.dataset.picture = picture.place;
  return copy;
}

function save(name, type, text) {
  const link = el("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A path as a line of a list; one that has line ends or begins like a JSON string is written as one.
function line(path) {
  return /^"|[\p{Cc}\p{Cs}\u2028\u2029]/u.test(path) ? JSON.stringify(path) : path;
}

function setAll(value) {
  ticked.clear();
  if (value === false) for (const picture of pictures) ticked.set(picture, false);
  else kept.clear();
  regroup();
}

$("threshold").value = Math.round((400 * (odds(found.threshold) - LOW)) / (HIGH - LOW));
const start = Number($("threshold").value);
$("threshold").oninput = () => {
  const at = Number($("threshold").value);
  // The threshold that the groups were found with lies between two steps of the slider.
  state.threshold = at === start ? found.threshold : 1 / (1 + Math.exp(-(LOW + (at / 400) * (HIGH - LOW))));
  regroup();
};
$("as-found").onclick = () => {
  $("threshold").value = start;
  state.threshold = found.threshold;
  regroup();
  $("threshold").focus();
};
$("controls").onsubmit = (event) => event.preventDefault();
for (const id of ["words", "kind", "sort"]) $(id).oninput = choose;
$("more").onclick = draw;
$("suggested").onclick = () => setAll(true);
$("nothing").onclick = () => setAll(false);
$("save-list").onclick = () =>
  save("duplicates.txt", "text/plain", state.shown.flatMap(going).map((picture) => line(picture.path) + "\n").join(""));
new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && draw(), {
  rootMargin: "800px",
}).observe($("more"));

$("facts").textContent = `${plural(found.looked, "picture")}, ${found.made}`;
$("told-by").textContent = found.told_by;
$("unseen").hidden = !hashed;
$("threshold-label").textContent = hashed ? "Bits that may differ" : "Minimum probability";
$("refused").hidden = found.refused.length === 0;
$("refused-title").textContent = `${plural(found.refused.length, "file")} could not be read`;
$("refused-list").append(...found.refused.map(({ path, reason }) => el("li", { textContent: `${path}: ${reason}` })));
regroup();
