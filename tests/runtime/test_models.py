import shutil
from dataclasses import asdict

import pytest

from diptych_runtime import models as module
from diptych_runtime.errors import ArtifactError, UnknownModelError
from diptych_runtime.manifest import MANIFEST, Manifest
from diptych_runtime.models import bundled_models, find_artifact


def test_bundled_models_are_found_by_name_and_artifacts_by_path(artifact, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MODELS", tmp_path)
    assert bundled_models() == []
    shutil.copytree(artifact, tmp_path / "pocket")
    (tmp_path / "unfinished").mkdir()
    assert bundled_models() == ["pocket"]
    assert find_artifact("pocket") == tmp_path / "pocket"
    assert find_artifact(artifact) == artifact
    with pytest.raises(
        UnknownModelError,
        match=r"'poket' is neither a bundled model \(pocket\) .* does not exist; did you mean pocket\?",
    ):
        find_artifact("poket")
    with pytest.raises(ArtifactError, match=r"does not exist$") as caught:
        find_artifact("./poket")
    assert caught.type is ArtifactError, "a path is no name"
    with pytest.raises(ArtifactError, match="it is a file"):
        find_artifact(artifact / MANIFEST)


def test_every_bundled_model_is_whole():
    assert "photo" in bundled_models()
    for name in bundled_models():
        manifest = Manifest.load(find_artifact(name))
        assert manifest.name == name
        for file in manifest.digests:
            assert manifest.read_checked(find_artifact(name), file)
        assert (find_artifact(name) / "CARD.md").read_text()
        assert asdict(manifest)["parity"]["largest"] <= 1e-5
