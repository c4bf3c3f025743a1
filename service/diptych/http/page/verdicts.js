// What a probability comes to, as the service says it, in words; and the thresholds that the model states.

import { service } from "./api.js";

const WORDS = {
  thing: {
    same: "The same thing",
    likely: "Probably the same thing",
    unsure: "Perhaps the same thing",
    different: "Not the same thing",
  },
  copy: { same: "A copy", likely: "Probably a copy", unsure: "Perhaps a copy", different: "Not a copy" },
};

/** A model of one question answers it whatever is asked. */
export const words = (verdict, question = "thing") => (WORDS[question] ?? WORDS.thing)[verdict] ?? "";

/** Whether a match or an answer counts as one: the same thing, or probably. */
export const isMatch = ({ verdict }) => verdict === "same" || verdict === "likely";

/** [{ threshold: 0.99, words: "1 in 1,000" }, ...], the most lenient first. */
export function rates() {
  return Object.entries(service.info?.thresholds ?? {})
    .sort(([a], [b]) => b - a)
    .map(([rate, threshold]) => ({ threshold, words: `1 in ${Math.round(1 / rate).toLocaleString("en")}` }));
}
