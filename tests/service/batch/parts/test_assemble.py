import dataclasses
import json
from contextlib import nullcontext

import pytest

from diptych.batch.parts import assemble
from diptych.batch.parts.folder import JobSpec, folder_of, opened
from diptych.batch.parts.manifest import write_part
from diptych.batch.tables.scores import Scores
from diptych.errors import BatchError
from diptych_runtime.judgement import Judgement


@pytest.fixture
def whole(artifact, pairs, tmp_path):
    """A job whose pairs have their own numbers as scores, in parts of 7 that are nobody's batches."""
    bar = lambda unit, count, done: nullcontext(lambda count: None)  # noqa: E731
    output = tmp_path / "out.csv"
    with opened(JobSpec.of(pairs, str(artifact)), output, resume=False, force=False, bar=bar) as found:
        manifest = dataclasses.replace(found, pairs_part=7)
        for number in range(manifest.scoring.parts):
            judged = [Judgement(n, n, "same", "taken") for n in range(*manifest.scoring.bounds(number))]
            path = folder_of(output) / manifest.scoring.file(number)
            write_part(path, Scores.of(judged, {3: "gone"} if number == 5 else {}).to_bytes())
        yield manifest, output


def test_the_scores_of_all_parts_stand_beside_their_rows(whole):
    manifest, output = whole
    ticks = []
    outcome = assemble.assemble(manifest, output, "jsonl", None, ticks.append)
    assert outcome == assemble.Outcome(1000, 1, 15, 1000)
    assert sum(ticks) == 1000
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["raw_score"] for row in rows] == [None if n == 38 else float(n) for n in range(1000)]
    assert rows[38]["error"] == "gone"


def test_an_output_is_known_by_its_bytes_as_that_of_its_job(whole, artifact, pairs):
    manifest, output = whole
    order = JobSpec.of(pairs, str(artifact))
    assert assemble.assembled(output, order, "csv") is None
    outcome = assemble.assemble(manifest, output, "csv", None, lambda count: None)
    assert assemble.assembled(output, order, "csv") == outcome
    record = assemble.record_of(output)
    record.rename(folder_of(output) / "output.json")  # as a kill between the two renames leaves it
    assert assemble.assembled(output, order, "csv") == outcome
    other = dataclasses.replace(order, model=dataclasses.replace(order.model, revision="other"))
    with pytest.raises(BatchError, match=r"the model is not the one it was made with \(other, then "):
        assemble.assembled(output, other, "csv")
    output.write_text("another's")
    assert assemble.assembled(output, order, "csv") is None


@pytest.mark.parametrize("change", [lambda rows: rows[:-1], lambda rows: [*rows, rows[-1]], lambda rows: rows[::-1]])
def test_a_table_with_other_rows_than_at_the_start_is_refused_and_nothing_gets_the_name(whole, pairs, change):
    manifest, output = whole
    header, *rows = pairs.read_bytes().split(b"plain")
    pairs.write_bytes(b"plain".join([header, *change(rows)]))
    with pytest.raises(BatchError, match=r"changed while it was scored; begin anew with --force|fields, the header"):
        assemble.assemble(manifest, output, "csv", None, lambda count: None)
    assert not output.exists()
    assert not (folder_of(output) / "output.tmp").exists()


def test_a_damaged_part_is_refused_by_name(whole):
    manifest, output = whole
    part = folder_of(output) / manifest.scoring.file(9)
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(BatchError, match=r"pairs-000009-.*.part is damaged .*; remove it and go on with --resume"):
        assemble.assemble(manifest, output, "csv", None, lambda count: None)
