"""The card of an artifact whose checkpoint brings none: what it is, what was measured, and what was not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diptych.console import rounded_down
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.manifest import CARD, Manifest
from diptych_runtime.models import bundled_models

WRITTEN = "<!-- written by diptych export, which writes it anew; remove this line to keep what you change -->"


def make_card(manifest: Manifest, metadata: Mapping[str, Any]) -> str:
    """The card as Markdown; of the checkpoint's `metadata` it takes `step` and `recipe`, and the name of the `released`
    model that this was one of.

    No path is in it: a card goes where the artifact goes.
    """
    parts = [_describe_model(manifest, metadata), _scores_section(manifest), _cost_section(manifest)]
    if figures := {name: value for name, value in manifest.metrics.items() if isinstance(value, int | float)}:
        rows = "\n".join(f"| {name} | {value:.3f} |" for name, value in figures.items())
        parts.insert(1, f"## Figures\n\nMeasured on what training held out.\n\n| figure | value |\n|---|---:|\n{rows}")
    return "\n\n".join([WRITTEN, f"# {manifest.name}", *parts]) + "\n"


def written_here(directory: Path) -> bool:
    """True unless the directory has a card that was changed, or was written by hand."""
    path = directory / CARD
    return not path.is_file() or path.read_bytes().startswith(WRITTEN.encode())


def _describe_model(manifest: Manifest, metadata: Mapping[str, Any]) -> str:
    asked = " and ".join(f"*{question}*" for question in manifest.questions)
    said = [f"A pair scorer of Diptych {manifest.package}, revision {manifest.revision}, that answers {asked}."]
    if released := metadata.get("released"):
        said.append(f"It was exported from the released `{released}`, whose card has the figures.")
    recipe = metadata.get("recipe") or {}
    if start := recipe.get("start"):
        known = start in bundled_models() or start == "imagenet"
        said.append(f"It started from {f'`{start}`' if known else 'a model of your own'}.")
    if tasks := recipe.get("tasks"):
        kinds = ", ".join(dict.fromkeys(f"`{task['kind']}`" for task in tasks))
        said.append(f"It learned from {kinds} for {metadata.get('step', 0):,} steps (docs/training.md).")
    return " ".join(said)


def _scores_section(manifest: Manifest) -> str:
    said = ["## Scores"]
    for name, question in manifest.questions.items():
        if question.is_calibrated:
            least = verdict_thresholds(question.effective_thresholds)
            same, likely = (rounded_down(least[verdict]) for verdict in ("same", "likely"))
            said.append(f"*{name}* is `same` from {same} and `likely` from {likely} on.")
        else:
            said.append(f"*{name}* is not calibrated: `relevance_score` orders pairs and is no probability.")
    return "\n\n".join(said)


def _cost_section(manifest: Manifest) -> str:
    said = (
        f"A picture takes {manifest.flops['panel'] / 1e6:,.1f} MFLOP to encode and "
        f"{manifest.picture_bytes / 1000:,.1f} kB in a collection, a pair {manifest.flops['pair'] / 1e6:,.1f} MFLOP; "
        f"{manifest.precision}, panels of {manifest.panel_size} pixels."
    )
    if manifest.parity:
        return f"## Cost\n\n{said} The graphs differ from torch by at most {manifest.parity['largest']:.1g}."
    return f"## Cost\n\n{said} The graphs were not compared with torch."
