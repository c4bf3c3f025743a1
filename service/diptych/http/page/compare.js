// Compare: two pictures, the probability that they show the same thing, and a verdict at a chosen strictness.

import { ofFile, onInfo, release } from "./api.js";
import { $, el, probability, thumbnail } from "./dom.js";
import { onChoice, onFiles } from "./intake.js";
import { choose, isMatch, onRate, rate, rates } from "./rates.js";
import { whyPanel } from "./why.js";

const SLOTS = ["a", "b"];
const pictures = { a: null, b: null };
const panel = whyPanel($("compare-why"));
let answer = null;

export const enter = () => {};
export const leave = () => {};

function put(slot, file) {
  release(pictures[slot]);
  pictures[slot] = ofFile(file);
  paint(slot);
  compare();
}

function clear(slot) {
  release(pictures[slot]);
  pictures[slot] = null;
  paint(slot);
  compare();
  $(`file-${slot}`).focus();
}

function paint(slot) {
  const picture = pictures[slot];
  $(`slot-${slot}`).classList.toggle("filled", picture !== null);
  const preview = picture && thumbnail(picture.source, `Picture ${slot.toUpperCase()}, ${picture.name}`, "no preview");
  $(`preview-${slot}`).replaceChildren(...(preview ? [preview] : []));
  $(`name-${slot}`).textContent = picture?.name ?? "";
  $(`clear-${slot}`).hidden = picture === null;
}

function compare() {
  answer = null;
  judge();
  $("compare-answer").hidden = !(pictures.a && pictures.b);
  if (!pictures.a || !pictures.b) return panel.stop();
  panel.ask({ ...pictures.a, role: "Picture A" }, { ...pictures.b, role: "Picture B" }, (found) => {
    answer = found;
    judge();
  });
}

function judge() {
  const node = $("compare-verdict");
  node.className = "big-verdict";
  paintRates();
  if (!answer) {
    node.textContent = "";
    return;
  }
  const same = isMatch(answer.relevance_score);
  const { threshold, words, rate: stated } = rate();
  const bound = stated ? `at ${words} (${probability(threshold)})` : `at even odds (${probability(threshold)})`;
  const value = probability(answer.relevance_score);
  node.classList.add(same ? "same" : "other");
  node.replaceChildren(
    el("b", { textContent: same ? "The same thing" : "Not the same thing" }),
    el("span", { textContent: `Probability ${value}, ${same ? "enough" : "too little"} ${bound}.` }));
}

function paintRates() {
  const all = rates();
  $("strict").hidden = !all.length;
  const focused = document.activeElement?.name === "strict" ? document.activeElement.value : null;
  $("strict-list").replaceChildren(...all.map(({ rate: value, threshold, words }) => {
    const input = el("input", { type: "radio", name: "strict", value, checked: rate().rate === value });
    input.onchange = () => choose(value);
    const share = Number((value * 100).toPrecision(6));
    const label = el("label", { className: "strict" }, input,
      el("b", { textContent: words }),
      el("span", { textContent: `${share} % of others pass, from ${probability(threshold)} on` }));
    if (answer) {
      const passes = answer.relevance_score >= threshold;
      const textContent = passes ? "✓ this pair passes" : "✗ this pair does not";
      label.append(el("span", { className: passes ? "passes" : "fails", textContent }));
    }
    return label;
  }));
  if (focused) $("strict-list").querySelector(`input[value="${focused}"]`)?.focus();
}

for (const slot of SLOTS) {
  onChoice($(`file-${slot}`), ([item]) => put(slot, item.file));
  $(`clear-${slot}`).addEventListener("click", () => clear(slot));
}
onFiles("compare", (items, target) => {
  const free = SLOTS.filter((slot) => !pictures[slot]);
  const aimed = SLOTS.find((slot) => $(`slot-${slot}`).contains(target));
  if (items.length > 1) items.slice(0, 2).forEach((item, index) => put(SLOTS[index], item.file));
  else if (items.length) put(aimed ?? free[0] ?? "b", items[0].file);
});
onRate(judge);
onInfo(judge);
