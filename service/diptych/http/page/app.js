// The page: a picture goes to /v1/search, and both orders come back side by side.

const TOP = 10;
const EXAMPLES = 6;
const STAGES = { decode: "decode", panel: "embed the query", retrieve: "find candidates", pair: "look at pairs" };

const $ = (id) => document.getElementById(id);
const state = { thresholds: {}, count: 0, result: null, queryId: null, running: null, previewUrl: null };

function el(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

async function api(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const fault = new Error(body?.error?.message ?? `The service answered ${response.status}.`);
  fault.requestId = body?.error?.request_id;
  throw fault;
}

const plural = (count, noun, ending = "s") => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : ending}`;
const milliseconds = (seconds) => (seconds < 0.0095 ? (seconds * 1000).toFixed(1) : Math.round(seconds * 1000)) + " ms";
// The decoder's words with the file's name in place of the position in the request.
const named = (message, name) => message.replace(/^(image(\[\d+\])?|the picture)(?=[ :])/, name);
const nameOf = (item) => item.path?.split(/[\\/]/).pop() || item.metadata?.filename || item.id.slice(0, 12);

/* What is served */

async function loadService() {
  try {
    const info = await api("/info");
    state.thresholds = info.thresholds;
    state.count = info.collection?.pictures ?? 0;
    $("model").textContent =
      `${info.model} ${info.revision.slice(0, 12)} on ${info.provider.replace("ExecutionProvider", "")}, diptych ${info.version}`;
    $("facts").textContent = info.collection ? plural(state.count, "picture") : "no collection";
    $("add").hidden = !info.collection;
    offerRates();
    if (!info.collection) {
      say("No collection", "Start the service with a store: diptych serve --store FOLDER");
    } else if (state.count === 0) {
      $("add").open = true;
      say("The collection is empty", "Add a few pictures below, then drop in the one to look for.");
    } else if (!state.result) {
      say("", "");
      $("intro").hidden = false;
      await loadExamples();
    }
  } catch (error) {
    fail(error);
  }
}

function say(title, text) {
  $("empty").hidden = !title;
  $("empty-title").textContent = title;
  $("empty-text").textContent = text;
}

async function loadExamples() {
  const { data } = await api(`/v1/images?limit=${Math.min(1000, state.count || 1)}`);
  const step = Math.max(1, Math.floor(data.length / EXAMPLES));
  const chosen = data.filter((_, index) => index % step === 0).slice(0, EXAMPLES);
  $("example-list").replaceChildren(...chosen.map((item) => el("li", {}, pick(item))));
  $("examples").hidden = chosen.length === 0;
}

function pick(item) {
  const label = `Look for ${nameOf(item)}`;
  const image = el("img", { src: item.thumbnail, alt: "", loading: "lazy" });
  return el("button", { type: "button", className: "pick", title: label, ariaLabel: label, onclick: () => byId(item) }, image);
}

/* Asking */

function byFile(file) {
  const form = new FormData();
  form.append("image", file, file.name || "pasted picture");
  form.append("top", TOP);
  if (state.previewUrl) URL.revokeObjectURL(state.previewUrl);
  state.previewUrl = URL.createObjectURL(file);
  ask({ method: "POST", body: form }, file.name || "Pasted picture", state.previewUrl, null);
}

function byId(item) {
  const body = JSON.stringify({ image: { id: item.id }, top: TOP });
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body };
  ask(options, nameOf(item), item.thumbnail, item.id);
}

async function ask(options, name, preview, id) {
  state.running?.abort();
  const running = (state.running = new AbortController());
  state.result = null;
  state.queryId = id;
  $("alert").hidden = true;
  $("intro").hidden = true;
  document.body.classList.add("asked");
  say("", "");
  $("query-image").src = preview;
  $("query-name").textContent = name;
  $("verdict").textContent = "Looking…";
  $("timings").replaceChildren();
  $("threads").replaceChildren();
  $("rate-line").hidden = true;
  $("answer").hidden = false;
  $("columns").setAttribute("aria-busy", "true");
  ghosts();
  const began = performance.now();
  try {
    const result = await api("/v1/search", { ...options, signal: running.signal });
    state.result = result;
    show(result, (performance.now() - began) / 1000);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("answer").hidden = true;
    error.message = named(error.message, name);
    fail(error);
  } finally {
    if (state.running === running) $("columns").removeAttribute("aria-busy");
  }
}

function fail(error) {
  const alert = $("alert");
  alert.replaceChildren(error.message);
  if (error.requestId) alert.append(el("small", { textContent: `Request ${error.requestId}` }));
  alert.hidden = false;
}

function ghosts() {
  for (const list of [$("first"), $("second")]) {
    list.classList.add("ghost");
    list.replaceChildren(
      ...Array.from({ length: Math.min(TOP, state.count || TOP) }, () =>
        el("li", { className: "row", ariaHidden: "true" },
          el("span", { className: "place" }), el("span", { className: "pick" }), el("span", { className: "what" }))),
    );
  }
}

/* Showing */

function show(result, seconds) {
  const stages = Object.entries(result.timings).map(([stage, value]) => timing(STAGES[stage] ?? stage, value));
  $("timings").replaceChildren(...stages, timing("in all", seconds, "total"));
  const scored = result.matches.some((match) => match.relevance_score !== null);
  $("rate-line").hidden = !scored || !$("rate").options.length;
  for (const list of [$("first"), $("second")]) list.classList.remove("ghost");
  if (result.matches.length === 0) {
    $("first").replaceChildren();
    $("second").replaceChildren();
    $("verdict").textContent = "The collection is empty.";
    return;
  }
  $("first").replaceChildren(...result.candidates.map((match) => row(match, false)));
  $("second").replaceChildren(...result.matches.map((match) => row(match, true)));
  highlight();
}

const timing = (name, seconds, className = "") =>
  el("div", { className }, el("dt", { textContent: name }), el("dd", { textContent: milliseconds(seconds) }));

function row(match, reranked) {
  const value = reranked ? match.relevance_score : match.similarity;
  const title = el("div", { className: "title" },
    el("a", { href: `/v1/images/${match.id}/content`, textContent: nameOf(match), title: match.path ?? nameOf(match) }));
  if (match.id === state.queryId) title.append(el("span", { className: "tag", textContent: "the query" }));
  title.append(reranked ? move(match.first_rank - match.rank) : went(match.rank + 1));
  const fill = el("i");
  fill.style.width = `${Math.max(0, Math.min(1, value ?? 0)) * 100}%`;
  const score = el("div", { className: "score" },
    el("span", { className: "bar", ariaHidden: "true" }, fill),
    el("span", { className: "number", textContent: value === null ? "–" : value.toFixed(3) }));
  // Probabilities crowd at 1 where all candidates look alike; the raw score still tells them apart.
  if (reranked && match.raw_score !== null) score.append(el("span", { className: "aside", textContent: `raw ${match.raw_score.toFixed(1)}` }));
  const node = el("li", { className: "row" },
    el("span", { className: "place", textContent: (reranked ? match.rank : match.first_rank) + 1 }),
    pick(match),
    el("div", { className: "what" }, title, score));
  node.dataset.id = match.id;
  for (const [event, lit] of [["mouseenter", true], ["mouseleave", false], ["focusin", true], ["focusout", false]]) {
    node.addEventListener(event, () => light(match.id, lit));
  }
  return node;
}

function move(places) {
  const [kind, sign] = places > 0 ? ["up", "↑ "] : places < 0 ? ["down", "↓ "] : ["", "="];
  const label = places ? `${kind} ${plural(Math.abs(places), "place")}` : "same place";
  const textContent = sign + (Math.abs(places) || "");
  return el("span", { className: `move ${kind}`, textContent, title: label, ariaLabel: label, role: "img" });
}

function went(place) {
  const label = `place ${place} after re-ranking`;
  return el("span", { className: "move went", textContent: `→ ${place}`, title: label, ariaLabel: label, role: "img" });
}

function light(id, lit) {
  for (const node of document.querySelectorAll(`[data-id="${id}"]`)) node.classList.toggle("lit", lit);
}

function highlight() {
  const { matches, candidates } = state.result;
  const threshold = state.thresholds[$("rate").value] ?? 0.5; // a model without stated rates: as likely as not
  const isMatch = (match) => match.relevance_score !== null && match.relevance_score >= threshold;
  for (const [list, items] of [[$("first"), candidates], [$("second"), matches]]) {
    items.forEach((match, index) => list.children[index].classList.toggle("match", isMatch(match)));
  }
  const found = matches.filter(isMatch).length;
  $("rate-value").textContent = `(probability ${threshold.toFixed(3)} or more)`;
  $("verdict").textContent = found
    ? `${plural(found, "match", "es")} among ${plural(state.count, "picture")}.`
    : `No match among ${plural(state.count, "picture")}; these come closest.`;
  $("status").textContent = $("verdict").textContent;
  drawThreads(isMatch);
}

function drawThreads(isMatch) {
  const svg = $("threads");
  const origin = svg.getBoundingClientRect();
  svg.replaceChildren();
  if (!origin.width) return;
  const middle = (node) => { const box = node.getBoundingClientRect(); return box.top + box.height / 2 - origin.top; };
  const right = new Map([...$("second").children].map((node) => [node.dataset.id, node]));
  for (const node of $("first").children) {
    const other = right.get(node.dataset.id);
    if (!other) continue;
    const [from, to, width] = [middle(node), middle(other), origin.width];
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", `M0 ${from}C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}`);
    path.dataset.id = node.dataset.id;
    const match = state.result.candidates.find((item) => item.id === node.dataset.id);
    path.classList.toggle("match", isMatch(match));
    path.classList.toggle("lit", node.classList.contains("lit"));
    svg.append(path);
  }
}

function offerRates() {
  const rates = Object.keys(state.thresholds).sort((a, b) => b - a);
  const words = (rate) => `1 false alarm in ${Math.round(1 / rate).toLocaleString("en")}`;
  $("rate").replaceChildren(...rates.map((rate) => el("option", { value: rate, textContent: words(rate) })));
  if (rates.includes("0.001")) $("rate").value = "0.001";
}

/* Adding */

async function addFiles(files) {
  const errors = [];
  let [done, created] = [0, 0];
  $("add-errors").replaceChildren();
  for (const file of files) {
    $("add-progress").textContent = `Adding ${done + 1} of ${files.length}…`;
    const form = new FormData();
    form.append("image", file, file.name);
    try {
      const added = await api("/v1/images", { method: "POST", body: form });
      created += added.data.filter((item) => item.created).length;
    } catch (error) {
      errors.push(el("li", { textContent: named(error.message, file.name) }));
    }
    done += 1;
  }
  const already = done - errors.length - created;
  $("add-progress").textContent =
    `${plural(created, "picture")} added` + (already ? `, ${already} there already` : "") + (errors.length ? `, ${errors.length} refused` : "") + ".";
  $("add-errors").replaceChildren(...errors);
  await loadService();
}

/* Dropping, pasting, choosing */

const pictures = (transfer) => [...(transfer?.files ?? [])];
const bringsFiles = (event) => event.dataTransfer?.types.includes("Files");
let depth = 0;

addEventListener("dragenter", (event) => { if (bringsFiles(event)) document.body.classList.toggle("dragging", ++depth > 0); });
addEventListener("dragleave", (event) => { if (bringsFiles(event)) document.body.classList.toggle("dragging", --depth > 0); });
addEventListener("dragover", (event) => { if (bringsFiles(event)) event.preventDefault(); });
addEventListener("drop", (event) => {
  if (!bringsFiles(event)) return;
  event.preventDefault();
  depth = 0;
  document.body.classList.remove("dragging");
  const files = pictures(event.dataTransfer);
  if (event.target.closest?.("#add")) addFiles(files);
  else if (files.length) byFile(files[0]);
});
addEventListener("paste", (event) => {
  const [file] = pictures(event.clipboardData);
  if (file) byFile(file);
});
addEventListener("resize", () => { if (state.result?.matches.length) highlight(); });

for (const [id, use] of [["file", (files) => byFile(files[0])], ["add-file", addFiles]]) {
  $(id).addEventListener("change", (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    if (files.length) use(files);
  });
}
$("rate").addEventListener("change", () => { if (state.result) highlight(); });

loadService();
