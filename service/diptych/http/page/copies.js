// What the view Duplicates draws: a group with its pictures side by side, and pairs near the threshold.

import { el, nameElement, nameOf, plural, probability, thumbnail } from "./dom.js";

/** A group's node; `act` is told { tick: [picture, on] } or { keep: picture } when the visitor chooses. */
export function drawGroup(group, act) {
  const least = Math.min(...group.members.map(({ score }) => score ?? 0));
  const head = el("p", { className: "group-head" },
    el("b", { textContent: plural(group.members.length, "picture") }),
    el("span", { textContent: `lowest score ${probability(least)}` }));
  const copies = el("div", { className: "copies" }, ...group.members.map((member) => drawCopy(member, act)));
  const node = el("li", { className: group.members.length > 2 ? "group many" : "group" }, head, copies);
  node.setAttribute("aria-label", `Group of ${nameOf(group.members[0].picture)}`);
  return node;
}

function drawCopy({ picture, score, verdict, keeper, reasons, passes, going, notes }, act) {
  const name = nameOf(picture);
  const thumb = el("div", { className: "thumb" }, thumbnail(picture.thumbnail));
  const line = el("div", { className: "state removing" });
  if (!keeper) {
    const tick = el("input", { type: "checkbox", checked: going });
    tick.setAttribute("aria-label", `Select ${name}`);
    tick.onchange = () => act({ tick: [picture, tick.checked] });
    thumb.onclick = () => tick.click();
    const keep = el("button", { type: "button", className: "quiet", textContent: "Keep this" });
    keep.setAttribute("aria-label", `Keep ${name} instead`);
    keep.onclick = () => act({ keep: picture });
    line.append(el("label", {}, tick, "remove"), keep);
  }
  const match = keeper
    ? el("span", { className: "tag", textContent: reasons.length ? `the one to keep: ${reasons.join(", ")}` : "the others are compared with this one" })
    : passes
      ? el("span", { textContent: [`${verdict}, score ${probability(score)}`, ...notes].join("; ") })
      : el("span", { className: "differs", textContent: "does not match the one to keep" });
  const link = nameElement("a", { href: `#/search?q=${picture.id}`, title: picture.path ?? name }, name);
  const copy = el("div", { className: ["copy", keeper && "keeper", going && "going"].filter(Boolean).join(" ") },
    thumb, link, el("span", { textContent: `${picture.width} × ${picture.height}` }), match, line);
  copy.dataset.id = picture.id;
  return copy;
}

/** A pair as a link to why it has its score. */
export function drawPair([a, b, score]) {
  const link = el("a", { href: `#/search?q=${a.id}&why=${b.id}` }, thumbnail(a.thumbnail), thumbnail(b.thumbnail),
    el("span", { textContent: probability(score) }));
  link.setAttribute("aria-label", `${nameOf(a)} and ${nameOf(b)}, score ${probability(score)}: why?`);
  return el("li", {}, link);
}
