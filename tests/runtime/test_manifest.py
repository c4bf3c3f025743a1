import json
import shutil
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import MANIFEST, Manifest, Question, revision_of


@pytest.fixture
def copied(artifact, tmp_path):
    return shutil.copytree(artifact, tmp_path / "copy")


def rewrite(directory, **changes):
    path = directory / MANIFEST
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(values))


def test_what_was_saved_is_what_is_loaded(artifact, tmp_path):
    manifest = Manifest.load(artifact)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest
    assert manifest.token_shape == (4, 4, 12)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]
    with pytest.raises(FrozenInstanceError):
        manifest.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


def test_what_another_version_made_of_a_look_is_left_out_and_the_network_alone_decides(copied):
    after = {"looked": {"bias": 1.0, "inliers": 0.5}, "apart": {"bias": 0, "logit": 1.5, "in_vain": 0.2}, "above": 0.9}
    look = {"above": 0.5, "weights": {"bias": 1.0, "agreement_60": 4.0}, "hidden": {}, "thresholds": {"0.01": 0.9}}
    rewrite(copied, questions={"match": {"after_look": after, "verification": look, "thresholds": {"0.01": 0.8}}})
    match = Manifest.load(copied).questions["match"]
    assert match.verification is None
    assert match.effective_thresholds == {"0.01": 0.8}
    weights = {"bias": 1.0, "odds": 1.0, "registered": 1.0, "containment": 0.5, "aligned_odds": 1.0}
    rewrite(copied, questions={"match": {"verification": look | {"weights": weights}}})
    with pytest.raises(ArtifactError, match="hidden"):
        Manifest.load(copied)
    del look["hidden"]
    rewrite(copied, questions={"match": {"verification": look | {"weights": weights}}})
    read = Manifest.load(copied).questions["match"].verification
    assert read is not None
    assert read.weights == weights


@pytest.mark.parametrize("version", [0, 3, "1", True, None])
def test_an_unknown_format_version_is_refused_with_the_way_out(version, copied):
    rewrite(copied, format=version)
    with pytest.raises(
        ArtifactError, match=rf"format {version!r}, .* reads the formats 1 and 2; install a newer version of Diptych"
    ):
        Manifest.load(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"panel_size": "large"}, "panel_size: Input should be a valid integer"),
        ({"panel_size": 0}, "sizes must be positive"),
        ({"token_shape": [4, 4]}, "token_shape.2: Field required"),
        (
            {"questions": {"match": {"scale": 0}}},
            "questions.match: .*calibration must be a positive 'scale' and an 'off",
        ),
        *(
            ({"questions": {"match": {wrong: -0.1}}}, "questions.match: .*'crops' must be 0 or more and below 1, 'coh")
            for wrong in ("crops", "cohort")
        ),
        ({"questions": {"match": {"thresholds": 0.9}}}, "questions.match.thresholds: Input should be a valid dict"),
        ({"questions": {"match": {"negatives": {"far": {}}}}}, "questions.match.negatives.far.*'random' or 'nearest'"),
        ({"questions": {}}, "answers at least one question"),
        ({"calibration": {"scale": 1.0, "offset": 0.0}}, "calibration: Unexpected keyword argument"),
        *(
            ({"revision": word}, "each revision must be a word of up to 64 letters")
            for word in ("../../escape", "/etc", "", ".", "a b", "a\nb", "r" * 65, "\u202e")
        ),
        ({"questions": {"../copy": {}}}, "each question must be a word"),
        ({"digests": {"../panel.onnx": ""}}, "each digest must be a word"),
        *(({"name": name}, "the name must be one line without a slash") for name in ("", "../a", "a/b", ".a", "a\nb")),
        ({"digests": {}}, "digests lack pair.onnx, panel.onnx"),
        ({"colour": 3}, "colour: Unexpected keyword argument"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused_with_the_place(changes, message, copied):
    rewrite(copied, **changes)
    with pytest.raises(ArtifactError, match=message):
        Manifest.load(copied)


def format_1(directory, **changes):
    """Write the manifest as it was before models answered several questions."""
    path = directory / MANIFEST
    values = json.loads(path.read_text())
    question = values.pop("questions")["match"]
    calibration = {name: question[name] for name in ("scale", "offset")}
    values |= {"format": 1, "thresholds": question["thresholds"], "calibration": calibration}
    path.write_text(json.dumps(values | changes))


def test_a_manifest_of_format_1_has_its_calibration_and_thresholds_in_its_one_question(artifact, copied):
    format_1(copied)
    found = Manifest.load(copied)
    assert found == Manifest.load(artifact)
    assert found.questions == {"match": Question(1.5, -0.25, {"0.01": 0.9, "0.001": 0.97, "0.0001": 0.99})}
    assert found.thresholds == found.questions["match"].thresholds


def test_text_that_is_no_json_is_refused(copied):
    (copied / MANIFEST).write_text("{")
    with pytest.raises(ArtifactError, match="cannot be read as JSON"):
        Manifest.load(copied)


def test_the_revision_follows_from_the_graphs_and_from_nothing_else(artifact):
    manifest = Manifest.load(artifact)
    assert manifest.revision == revision_of(manifest.digests)
    assert len(manifest.revision) == 12
    assert revision_of({**manifest.digests, "pair.onnx": "0" * 64}) != manifest.revision
    # No stored number depends on what can be explained.
    assert revision_of({**manifest.digests, "explain.onnx": "0" * 64}) == manifest.revision
    assert replace(manifest, questions={"match": Question(2.0, 1.0)}).revision == manifest.revision


@pytest.mark.parametrize("where", ["", "best"])
def test_a_checkpoint_or_a_run_in_the_place_of_an_artifact_is_told_how_to_become_one(
    where: str, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match="`diptych export CHECKPOINT -o DIR`"):
        Manifest.load(tmp_path)
    (tmp_path / where).mkdir(exist_ok=True)
    (tmp_path / where / "weights.safetensors").touch()
    with pytest.raises(ArtifactError, match=f"`diptych export {tmp_path / where} -o DIR`"):
        Manifest.load(tmp_path)
