// How strict a verdict is: the thresholds of /info, one of which is chosen, here and in every view, and remembered.

import { probability } from "./dom.js";
import { service } from "./api.js";

const KEY = "diptych.rate";
const listeners = [];
let chosen = null;
try {
  chosen = localStorage.getItem(KEY);
} catch {
  // a browser that keeps nothing
}

/** [{ rate: "0.001", threshold: 0.99, words: "1 in 1,000" }, ...], the most lenient first. */
export function rates() {
  return Object.entries(service.info?.thresholds ?? {})
    .sort(([a], [b]) => b - a)
    .map(([rate, threshold]) => ({ rate, threshold, words: `1 in ${Math.round(1 / rate).toLocaleString("en")}` }));
}

/** The chosen one; a model without stated rates: as likely as not. */
export function rate() {
  const all = rates();
  const found = all.find((item) => item.rate === chosen) ?? all.find((item) => item.rate === "0.001") ?? all[0];
  return found ?? { rate: null, threshold: 0.5, words: "even odds" };
}

export function choose(value) {
  chosen = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // then it holds until the page is closed
  }
  for (const listener of listeners) listener();
}

export const onRate = (listener) => listeners.push(listener);

export const isMatch = (value) => value !== null && value >= rate().threshold;

export const fromWords = (threshold) => `probability ${probability(threshold)} or more`;
