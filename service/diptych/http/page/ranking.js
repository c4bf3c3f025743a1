// The two columns of a search, and the threads between the places of a picture in both.

import { $, el, nameElement, nameOf, plural, shape, thumbnail } from "./dom.js";
import { isMatch } from "./verdicts.js";

const lists = () => [$("first"), $("second")];

/** Rows without content while the search runs. */
export function ghosts(count) {
  clearThreads();
  for (const list of lists()) {
    list.classList.add("ghost");
    list.replaceChildren(...Array.from({ length: count }, () =>
      el("li", { className: "row", ariaHidden: "true" },
        el("span", { className: "place" }), el("span", { className: "pick" }), el("span", { className: "what" }))));
  }
}

const clearThreads = () => $("threads").replaceChildren();

/** Both orders; `onWhy(match)` is called for the match that the visitor asks about. */
export function showColumns({ candidates, matches }, queryId, onWhy) {
  for (const list of lists()) list.classList.remove("ghost");
  $("first").replaceChildren(...candidates.map((match) => row(match, false, queryId, onWhy)));
  $("second").replaceChildren(...matches.map((match) => row(match, true, queryId, onWhy)));
}

function row(match, reranked, queryId, onWhy) {
  const name = nameOf(match);
  const place = reranked ? match.rank : match.first_rank;
  const value = reranked ? match.relevance_score : match.similarity;
  const number = value === null ? "–" : value.toFixed(3);
  const [sign, words, kind] = reranked ? moved(match.first_rank - match.rank) : went(match.rank);
  const image = thumbnail(match.thumbnail);
  const why = el("button", { type: "button", className: "pick", title: `Why ${name}?` }, image);
  why.onclick = () => onWhy(match);
  const measure = `${reranked ? "probability" : "cosine"} ${value === null ? "not known" : number}`;
  why.setAttribute("aria-label", `Why ${name}? Place ${place}, ${measure}, ${words}`);
  const title = el("div", { className: "title" },
    nameElement("span", { title: match.path ?? name }, name));
  if (match.id === queryId) title.append(el("span", { className: "tag", textContent: "the query" }));
  if (match.file_state === "changed" || match.file_state === "missing") {
    title.append(el("span", { className: "tag", textContent: `file ${match.file_state}`,
      title: "The file is no longer the one that was read" }));
  }
  title.append(el("span", { className: `move ${kind}`, textContent: sign, title: words, ariaHidden: "true" }));
  const fill = el("i");
  fill.style.width = `${Math.max(0, Math.min(1, value ?? 0)) * 100}%`;
  const score = el("div", { className: "score" },
    el("span", { className: "bar", ariaHidden: "true" }, fill),
    el("span", { className: "number", textContent: number }));
  // Probabilities crowd at 1 where all candidates look alike; the raw score still tells them apart.
  if (reranked && match.raw_score !== null) {
    const raw = el("span", { className: "raw", textContent: `, raw ${match.raw_score.toFixed(1)}` });
    score.append(el("span", { className: "aside" }, match.verdict, raw));
  }
  const node = el("li", { className: "row" },
    el("span", { className: "place", textContent: place }), why, el("div", { className: "what" }, title, score));
  node.dataset.id = match.id;
  for (const [event, lit] of [["mouseenter", true], ["mouseleave", false], ["focusin", true], ["focusout", false]]) {
    node.addEventListener(event, () => light(match.id, lit));
  }
  return node;
}

function moved(places) {
  if (!places) return ["=", "same place as by the embedding", ""];
  const kind = places > 0 ? "up" : "down";
  return [`${places > 0 ? "↑" : "↓"} ${Math.abs(places)}`, `${kind} ${plural(Math.abs(places), "place")}`, kind];
}

const went = (place) => [`→ ${place}`, `place ${place} after re-ranking`, "went"];

function light(id, lit) {
  for (const node of $("columns").querySelectorAll(`[data-id="${CSS.escape(id)}"]`)) node.classList.toggle("lit", lit);
}

/** Mark what is a match, and draw the threads. */
export function highlight({ candidates, matches }) {
  for (const [list, items] of [[$("first"), candidates], [$("second"), matches]]) {
    items.forEach((match, index) => list.children[index].classList.toggle("match", isMatch(match)));
  }
  const svg = $("threads");
  const { top, width } = svg.getBoundingClientRect();
  clearThreads();
  if (!width) return;
  const middle = (node) => {
    const box = node.getBoundingClientRect();
    return box.top + box.height / 2 - top;
  };
  const right = new Map([...$("second").children].map((node) => [node.dataset.id, node]));
  for (const node of $("first").children) {
    const other = right.get(node.dataset.id);
    if (!other) continue;
    const [from, to] = [middle(node), middle(other)];
    const path = shape("path", { d: `M0 ${from}C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}` });
    path.dataset.id = node.dataset.id;
    path.classList.toggle("match", node.classList.contains("match"));
    path.classList.toggle("lit", node.classList.contains("lit"));
    svg.append(path);
  }
}
