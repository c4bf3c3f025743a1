"""`diptych bench` and `diptych study` as they are typed."""

import inspect
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typed import parsed

from diptych.cli.main import main
from diptych_studies import pairs, variants
from diptych_studies.benchmarks import resnets
from diptych_studies.benchmarks.operators import bench_operators
from diptych_studies.benchmarks.resnets import Count
from diptych_studies.networks.translation import TranslationConfig
from diptych_studies.papers import translation, xcit
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


@pytest.mark.slow
def test_bench_operators_prints_its_table_and_writes_its_plot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "costs.svg"
    few = ["--width", "8", "--tokens", "8", "--windows", "1", "--repeats", "1", "--mixers", "convolution"]
    assert main(["bench", "operators", *few, "--plot", str(plot)]) == 0
    assert "convolution" in capsys.readouterr().out
    assert plot.read_text().startswith("<?xml")
    assert main(["bench", "operators", *few, "--no-plot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["width"] == 8


def test_bench_resnets_prints_ours_beside_the_papers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Count("ResNet-26", "convolution", 13_700_000, 2_600_000_000, 13.7, 2.5)]
    monkeypatch.setattr(resnets, "compare_with_paper", lambda: rows)  # which takes seconds: `test_resnets` has them all
    assert main(["bench", "resnets", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [rows[0].to_dict()]
    assert main(["bench", "resnets"]) == 0
    assert "+4.0%" in capsys.readouterr().out


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


def test_the_cost_of_a_step_is_timed_and_nothing_is_trained_to_its_end(
    omniglot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(variants, "BASE", replace(variants.BASE, pixels=16, blocks=1))
    monkeypatch.setattr(pairs, "ROUNDS", 2)
    monkeypatch.setenv("DIPTYCH_DATA", str(omniglot))
    monkeypatch.chdir(tmp_path)
    assert main(["study", "mixers", "--cost", "--only", "convolution", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["variant"] for row in rows] == ["msac", "convolution"]
    assert rows[0]["ratio"] == [1, 1, 1]
    assert all(row["seconds"] > 0 and row["ratio"][0] <= row["ratio"][1] <= row["ratio"][2] for row in rows)
    assert main(["study", "mixers", "--cost", "--only", "convolution"]) == 0
    assert "a step of" in capsys.readouterr().out
    assert main(["study", "ablation", "--cost", "--on", "photos"]) == 1
    assert "--cost is for --on omniglot" in capsys.readouterr().err
    assert main(["study", "mixers", "--cost", "--steps", "9"]) == 1
    assert "--cost trains nothing: leave out --steps" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_study_xcit_prints_both_networks(
    archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(xcit, "SHAPE", xcit.SHAPE | {"d": 8, "depth": 1, "heads": 2, "class_depth": 1})
    monkeypatch.setattr(xcit, "TOKENS", (4, 16))
    monkeypatch.setenv("DIPTYCH_DATA", str(archives))
    small = ["--steps", "1", "--seeds", "1", "--processes", "0", "--out", str(tmp_path)]
    assert main(["study", "xcit", *small]) == 0
    assert "self-attention" in capsys.readouterr().out


@pytest.mark.slow
def test_study_language_reads_the_text_it_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "book.txt"
    book.write_text("the quick red fox jumps over the lazy brown dog. " * 1000)
    small = ["--steps", "1", "--seeds", "1", "--processes", "0", "--out", str(tmp_path / "runs")]
    assert main(["study", "language", "--text", str(book), *small]) == 0
    assert "book.txt" in capsys.readouterr().out
    assert main(["study", "language", "--text", str(tmp_path / "none.txt"), *small]) == 1
    assert "expected a text file or a folder" in capsys.readouterr().err


def test_study_translation_draws_what_each_network_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_shape = partial(TranslationConfig, words=4, longest=5, width=8, heads=2, blocks=1)
    monkeypatch.setattr(translation, "TranslationConfig", small_shape)
    small = ["--steps", "1", "--seeds", "1", "--processes", "0", "--out", str(tmp_path / "runs")]
    assert main(["study", "translation", *small, "--plot", str(tmp_path / "seen.png"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["network"] for row in rows} == {"transformer", "additive", "dot"}
    assert (tmp_path / "seen.png").stat().st_size > 1000


def test_what_is_only_for_photos_is_refused_on_omniglot(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--finished"], ["--plot", "mixers.png"], ["--runs", "mixers.csv"]):
        assert main(["study", "mixers", *option]) == 1
        assert (
            "--runs, --finished and --plot are for --on photos; add that, or leave them out" in capsys.readouterr().err
        )
