"""The card of an artifact whose checkpoint brings none: what it is, what was measured, and what was not."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diptych.console import rounded_down
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.manifest import CARD, Manifest
from diptych_runtime.models import bundled_models

WRITTEN = "<!-- written by diptych export, which writes it anew; remove this line to keep what you change -->"
_RATES = ("0.01", "0.001", "0.0001")
_FIGURES = {
    "micro_ap": "micro-AP",
    "recall_at_p90": "recall at 90 % precision",
    "recall@1": "recall@1",
    "map": "mAP",
}


def make_card(manifest: Manifest, history: Mapping[str, Any]) -> str:
    """The card as Markdown; `history` is the metadata of the checkpoint, of which it takes `step` and `recipe`, and the
    name of the `released` model that this was one of.

    No path is in it: a card goes where the artifact goes.
    """
    parts = [
        _describe_model(manifest, history),
        _figures_section(manifest.metrics),
        _scores_section(manifest),
        _cost_section(manifest),
        _use_section(manifest),
    ]
    return "\n\n".join([WRITTEN, f"# {manifest.name}", *filter(None, parts)]) + "\n"


def written_here(directory: Path) -> bool:
    """True unless the directory has a card that was changed, or was written by hand."""
    path = directory / CARD
    return not path.is_file() or path.read_bytes().startswith(WRITTEN.encode())


def _describe_model(manifest: Manifest, history: Mapping[str, Any]) -> str:
    asked = " and ".join(f"*{question}*" for question in manifest.questions)
    said = [f"A pair scorer of Diptych {manifest.package}, revision {manifest.revision}, that answers {asked}."]
    if released := history.get("released"):
        said.append(f"It was exported from the released `{released}`, whose card has the figures.")
    recipe = history.get("recipe") or {}
    if start := recipe.get("start"):
        known = start in bundled_models() or start == "imagenet"
        said.append(f"It started from {f'`{start}`' if known else 'a model of your own'}.")
    if tasks := recipe.get("tasks"):
        kinds = ", ".join(dict.fromkeys(f"`{task['kind']}`" for task in tasks))
        said.append(f"It learned from {kinds} for {history.get('step', 0):,} steps (docs/training.md).")
    return " ".join(said)


def _figures_section(metrics: Mapping[str, Any]) -> str:
    """The figures of training as a table, with and without re-ranking side by side."""
    rows = {}
    for name, value in metrics.items():
        figure = next((one for one in _FIGURES if name.endswith(f"_{one}")), None)
        if figure is not None:
            task = name.removesuffix(f"_{figure}")
            stage = "re-ranked" if task.endswith("_reranked") else "first stage"
            rows.setdefault((task.removesuffix("_reranked"), figure), {})[stage] = f"{value:.3f}"
    if not rows:
        return ""
    table = [
        [task, _FIGURES[figure], found.get("first stage", ""), found.get("re-ranked", "")]
        for (task, figure), found in rows.items()
    ]
    return (
        "## Figures\n\nMeasured on the pictures that training held out, by which the best checkpoint was also chosen. "
        "They say little about other kinds of pictures.\n\n"
        "| set | figure | first stage | re-ranked |\n|---|---|---:|---:|\n"
    ) + _table_lines(table)


def _scores_section(manifest: Manifest) -> str:
    measured = {name: question.thresholds for name, question in manifest.questions.items() if question.thresholds}
    said = ["## Scores"]
    if measured:
        table = [
            [name, *(f"{found[rate]:.4f}" if rate in found else "not stated" for rate in _RATES)]
            for name, found in measured.items()
        ]
        said.append(
            "The `relevance_score` by the network alone that this share of the pairs that do not match reaches, among "
            "every held-out query and its nearest candidates:"
        )
        said.append("| question | 1 % | 0.1 % | 0.01 % |\n|---|---:|---:|---:|\n" + _table_lines(table))
    for name, question in manifest.questions.items():
        if not question.is_calibrated:
            continue
        least = verdict_thresholds(question.effective_thresholds)
        when = ", after the closer look at what may be a copy" if question.verification or question.after_look else ""
        same, likely = (rounded_down(least[verdict]) for verdict in ("same", "likely"))
        said.append(f"*{name}* is `same` from {same} and `likely` from {likely} on{when}.")
    if not any(question.verification for question in manifest.questions.values()):
        said.append("It takes no closer look at pairs: scores are those of the network alone.")
    if rest := [f"*{name}*" for name, question in manifest.questions.items() if not question.is_calibrated]:
        said.append(
            f"Not calibrated: {', '.join(rest)}. There `relevance_score` orders pairs and is no probability, and a "
            "verdict is only a level of it."
        )
    return "\n\n".join(said)


def _table_lines(table: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _cost_section(manifest: Manifest) -> str:
    kept = (manifest.codec.nbytes + 4 * manifest.embedding_dim) / 1000
    said = (
        f"A picture takes {manifest.flops['panel'] / 1e6:,.1f} MFLOP to encode and {kept:,.1f} kB in a collection, "
        f"a pair {manifest.flops['pair'] / 1e6:,.1f} MFLOP; {manifest.precision}, panels of {manifest.panel_size} "
        "pixels."
    )
    if manifest.scores_pixels:
        said += " Pairs are scored from the pixels of both pictures, in both orders; these are kept in place of tokens."
    if manifest.parity:
        against = sorted({difference["against"] for difference in manifest.parity["differences"]})
        said += f" The graphs differ from torch by at most {manifest.parity['largest']:.1g} in {'; '.join(against)}."
    else:
        said += " The graphs were not compared with torch."
    return f"## Cost\n\n{said}"


def _use_section(manifest: Manifest) -> str:
    return f"""## Use

```bash
diptych score pairs.csv --model {manifest.name} -o scores.csv
diptych evaluate retrieval --queries queries.csv --gallery gallery.csv --root PHOTOS --model {manifest.name}
```

with the path of this folder for `{manifest.name}`. The second measures it on your own pictures: do that before
you trust a threshold."""
