"""The commands of the service."""

from __future__ import annotations

from diptych.cli import bench, dedupe, doctor, estimate, index, score, search, serve, sync
from diptych.command_tree import Commands


def register(commands: Commands) -> None:
    """Add the commands of the service."""
    for run in (serve.serve, serve.key):
        commands.add(run)
    actions = commands.group(index.index)
    for run in (
        index.add,
        sync.sync,
        index.remove,
        index.stats,
        index.verify,
        index.export,
        index.backup,
        index.restore,
        index.rebuild,
    ):
        actions.add(run)
    for run in (search.search, score.score, search.rerank, search.explain, dedupe.dedupe, doctor.doctor):
        commands.add(run)
    subjects = commands.group(bench.bench, alone=True)
    for run in (bench.load, bench.collection, bench.store, bench.dedupe, bench.score):
        subjects.add(run)
    for run in (estimate.estimate, bench.demo):
        commands.add(run)
