// Compare: two pictures, and to every question that the model answers the probability and the verdict.

import { ofFile, release } from "./api.js";
import { $, el, probability, thumbnail } from "./dom.js";
import { onChoice, onFiles } from "./intake.js";
import { isMatch, words } from "./verdicts.js";
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
  const asked = answer ? [answer.question, ...Object.keys(answer.answers)] : [];
  $("compare-verdict").replaceChildren(...[...new Set(asked)].map((question) => said(question, answer.answers[question])));
}

/** The answer to one question, in words and as a number. */
function said(question, one) {
  const unseen = one.closer_look === "not taken" ? ", without the closer look it calls for" : "";
  // Every copy shows the same thing, so that this probability is lifted to that of a copy.
  const lifted = question === "thing" && one.relevance_score === answer.answers.copy?.relevance_score
    ? ", the same as for a copy" : "";
  return el("span", { className: isMatch(one) ? "same" : "other" },
    el("b", { textContent: words(one.verdict, question) }),
    el("span", { textContent: `Probability ${probability(one.relevance_score)}${lifted}${unseen}.` }));
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
