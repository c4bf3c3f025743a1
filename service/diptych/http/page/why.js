// Why two pictures have their score: the question to /v1/explain, and the dialog in which a search shows the answer.

import { Fault, named, post, reference } from "./api.js";
import { within } from "./collections.js";
import { $, el, fact, percent, probability, showFault } from "./dom.js";
import { pairStage } from "./links.js";

/** A place for explanations: `ask(query, document)` shows both at once and then what the network looked at. */
export function whyPanel(root) {
  const fault = el("p", { className: "alert", role: "alert", hidden: true });
  const view = el("div", { className: "why" });
  const facts = el("dl", { className: "facts-line" });
  root.replaceChildren(fault, facts, view);
  let running = null;
  let stage = null;

  async function ask(query, found, onAnswer = null) {
    stop();
    const mine = (running = new AbortController());
    stage = pairStage(view, [query, found]);
    view.setAttribute("aria-busy", "true");
    try {
      const images = [await reference(query), await reference(found)];
      if (mine.signal.aborted) return;
      const answer = await explained(images, mine.signal);
      if (mine.signal.aborted) return;
      facts.replaceChildren(
        fact("probability", probability(answer.relevance_score), "total"),
        fact("verdict", answer.verdict),
        fact("raw score", answer.raw_score.toFixed(2)),
        ...lookFacts(answer.evidence),
        ...(answer.links ? [fact("match of the patches on average", percent(answer.crossing))] : []));
      if (answer.links) stage.show(answer);
      onAnswer?.(answer);
    } catch (error) {
      if (error.name === "AbortError" || mine.signal.aborted) return;
      if (!(error instanceof Fault)) console.error(error);
      named(error, { "images[0]": query.name, "images[1]": found.name, queries: query.name, documents: found.name });
      showFault(fault, error, () => ask(query, found, onAnswer));
    } finally {
      if (running === mine) view.removeAttribute("aria-busy");
    }
  }

  /** Give up what is asked and take the pictures away. */
  function stop() {
    running?.abort();
    stage?.end();
    running = stage = null;
    fault.hidden = true;
    view.replaceChildren();
    facts.replaceChildren();
  }

  return { ask, stop };
}

/** What the closer look saw, if there was one. */
function lookFacts(seen) {
  if (!seen) return [];
  const agreeing = fact("matching keypoints agree", `${seen.inliers} of ${seen.matches}`);
  if (!seen.inliers) return [agreeing];
  const copy = 1 / (1 + Math.exp(-seen.aligned_odds));
  return [agreeing, fact("that both are one picture, by what overlaps", percent(copy))];
}

/** An explanation, or, from a model that cannot show where it looks, the score alone. */
async function explained(images, signal) {
  try {
    return await post("/v1/explain", { images, matrix: true }, signal);
  } catch (error) {
    if (error.code !== "invalid_artifact") throw error;
    const { data, question } = await post("/v1/score", { queries: images[0], documents: images[1] }, signal);
    return { ...data[0], question, relevance_score: data[0].score };
  }
}

/** The dialog of a search: `open(query, match)` and `close()`; `onClose` is called when the visitor closes it. */
export function whyDialog(onClose) {
  const dialog = $("why-dialog");
  const panel = whyPanel($("why-panel"));
  let byHand = true;
  $("why-close").addEventListener("click", () => dialog.close());
  // A click on the backdrop is a click on the dialog itself.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    if (dialog.open) return; // opened again before this event came
    panel.stop();
    if (byHand) onClose();
    byHand = true;
  });
  return {
    open(query, match) {
      $("why-name").textContent = match.name;
      $("why-search").href = `#/search?q=${match.id}`;
      $("why-content").href = within(`/v1/images/${match.id}/content`);
      if (!dialog.open) dialog.showModal();
      panel.ask({ ...query, role: "Query" }, { ...match, role: "Match" });
    },
    close() {
      if (!dialog.open) return;
      byHand = false;
      dialog.close();
    },
  };
}
