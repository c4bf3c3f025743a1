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

/** [[keeper, other, ...], ...], contents of which a single one is a group only if it has several files. */
function grouped(matches, files, threshold) {
  const taken = new Set();
  const groups = [];
  for (let keeper = 0; keeper < matches.length; keeper++) {
    if (taken.has(keeper)) continue;
    const others = [];
    for (const [other, score] of matches[keeper]) if (score >= threshold && !taken.has(other)) others.push(other);
    for (const content of [keeper, ...others]) taken.add(content);
    if (others.length || files[keeper].length > 1) groups.push([keeper, ...others.sort((a, b) => a - b)]);
  }
  return groups;
}
