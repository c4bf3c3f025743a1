"""`diptych bench` and `diptych study` as they are typed."""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typed import parsed

from diptych.cli.main import main
from diptych_studies import pairs, variants
from diptych_studies.benchmarks.operators import bench_operators
from diptych_studies.papers.bert import study_bert
from diptych_studies.papers.networks import study_networks
from diptych_studies.papers.questions import study_questions
from diptych_studies.papers.sagan import study_sagan
from diptych_studies.papers.scales import study_language
from diptych_studies.papers.translation import study_translation
from diptych_studies.papers.xcit import study_xcit
from diptych_studies.photo_pairs.study import study_on_photos
from diptych_studies.shapes import study_shapes


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (["bench", "operators"], bench_operators),
        (["study", "mixers"], pairs.study_pairs),
        (["study", "ablation"], pairs.study_pairs),
        (["study", "shapes"], study_shapes),
        (["study", "language"], study_language),
        (["study", "networks"], study_networks),
        (["study", "bert"], study_bert),
        (["study", "xcit"], study_xcit),
        (["study", "translation"], study_translation),
        (["study", "questions"], study_questions),
        (["study", "sagan"], study_sagan),
        (["study", "mixers"], study_on_photos),
        (["study", "ablation"], study_on_photos),
    ],
)
def test_a_default_is_the_same_in_the_command_and_in_its_function(line: list[str], function) -> None:
    typed = parsed(*line)
    known = {name: p.default for name, p in inspect.signature(function).parameters.items() if name in typed}
    assert len(known) >= 3
    for name, default in known.items():
        given = typed[name]
        assert (tuple(given) if isinstance(given, list) else given or ()) == (default or ()), name


def test_study_mixers_measures_what_is_asked_for(
    omniglot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(pairs.PANEL, "steps", 1)
    monkeypatch.setitem(pairs.PANEL_SHAPE, "pixels", 16)
    for module in (pairs, variants):
        monkeypatch.setattr(module, "BASE", replace(variants.BASE, pixels=16, blocks=1))
    monkeypatch.setenv("DIPTYCH_DATA", str(omniglot))
    small = ["--steps", "1", "--episodes", "1", "--seeds", "1", "--processes", "0", "--out", str(tmp_path)]
    assert main(["study", "mixers", "--only", "convolution", *small, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["variant"] for row in rows] == ["embedding alone", "msac", "convolution"]
    assert not (tmp_path / "mixers.json").exists(), "that is the table of all variants"
    assert main(["study", "mixers", "--only", "convoluton", *small]) == 1
    assert "has no variant 'convoluton'" in capsys.readouterr().err
