// The groups of dedupe/groups.py, from the pairs that a page has: a keeper, and what matches the keeper itself. No module,
// for the report of `diptych dedupe` has it within itself.

/** What matches what: [Map(content -> score), ...] by content, whose numbers are in the order to keep. */
function matchesOf(count, pairs) {
  const matches = Array.from({ length: count }, () => new Map());
  for (const [a, b, score] of pairs) {
    matches[a].set(b, score);
    matches[b].set(a, score);
  }
  return matches;
}

/** What a score comes to, by { verdict: its lowest score }, the strictest first. */
function verdictOf(verdicts, score) {
  return Object.entries(verdicts).find(([, least]) => score >= least)?.[0] ?? "different";
}

/** The score of a content with the one to keep of its group, or the best it has with another where those two do not match. */
function scoreIn(group, keeper, content, matches, threshold) {
  const own = matches[content].get(keeper) ?? 0;
  return own >= threshold ? own : Math.max(...group.map((other) => matches[content].get(other) ?? 0));
}

/** [[keeper, other, ...], ...], contents of which a single one is a group only if it has several files. */
function grouped(matches, files, threshold) {
  const pairs = matches.flatMap((others, a) => [...others].filter(([b, score]) => a < b && score >= threshold).map(([b, score]) => [a, b, score]));
  const group = matches.map((_, content) => [content]);
  for (const [a, b] of pairs.sort((x, y) => y[2] - x[2] || x[0] - y[0] || x[1] - y[1])) {
    const [one, other] = [group[a], group[b]].sort((x, y) => x[0] - y[0]);
    if (one === other || !other.every((content) => matches[one[0]].get(content) >= threshold)) continue;
    one.push(...other);
    for (const content of other) group[content] = one;
  }
  const found = [...new Set(group)].filter((contents) => contents.length > 1 || files[contents[0]].length > 1);
  return found.map((contents) => contents.sort((a, b) => a - b)).sort((a, b) => a[0] - b[0]);
}
