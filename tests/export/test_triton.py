import importlib.resources
import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from google.protobuf import text_format

from diptych.cli.main import main
from diptych_export.triton import _panel_graph, write_repository
from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import Manifest
from diptych_runtime.runtime import Runtime
from diptych_runtime.token_codec import TokenCodec


@pytest.fixture(scope="module")
def triton():
    """What Triton itself reads a config.pbtxt by, from its client, whose other parts need gRPC."""
    path = importlib.resources.files("tritonclient").joinpath("grpc", "model_config_pb2.py")
    spec = importlib.util.spec_from_file_location("model_config_pb2", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def repository(artifact, tmp_path_factory):
    folder = tmp_path_factory.mktemp("triton") / "models"
    write_repository(artifact, folder)
    return folder


class Server:
    """As much of Triton as runs a repository: its models under ONNX Runtime, its ensembles step by step."""

    def __init__(self, repository, triton):
        self.repository, self.triton = repository, triton
        self.configs = {
            path.parent.name: text_format.Parse(path.read_text(), triton.ModelConfig())
            for path in repository.glob("*/config.pbtxt")
        }
        self.sessions = {
            name: onnxruntime.InferenceSession(repository / name / "1/model.onnx", providers=["CPUExecutionProvider"])
            for name, config in self.configs.items()
            if config.backend == "onnxruntime"
        }

    def infer(self, model, feeds):
        config = self.configs[model]
        for given in config.input:
            assert list(feeds[given.name].shape[1:]) == list(given.dims)
            assert len(feeds[given.name]) <= config.max_batch_size
        if model in self.sessions:
            names = [output.name for output in config.output]
            made = map(np.asarray, self.sessions[model].run(names, feeds))
            return dict(zip(names, made, strict=True))
        values = dict(feeds)
        for step in config.ensemble_scheduling.step:
            assert (self.repository / step.model_name / str(step.model_version)).is_dir()
            made = self.infer(step.model_name, {name: values[value] for name, value in step.input_map.items()})
            values |= {value: made[name] for name, value in step.output_map.items()}
        return {output.name: values[output.name] for output in config.output}


def kind_of(triton, tensor) -> str:
    return triton.DataType.Name(tensor.data_type).removeprefix("TYPE_")


def test_the_configs_are_triton_s_and_say_what_the_graphs_have(repository, triton):
    server = Server(repository, triton)
    assert set(server.configs) == {"tiny", "tiny_panel", "tiny_pair"}
    numbers = {"tensor(uint8)": "UINT8", "tensor(float16)": "FP16", "tensor(float)": "FP32"}
    for name, session in server.sessions.items():
        config = server.configs[name]
        for said, has in ((config.input, session.get_inputs()), (config.output, session.get_outputs())):
            assert [(one.name, kind_of(triton, one), list(one.dims)) for one in said] == [
                (one.name, numbers[one.type], one.shape[1:]) for one in has
            ]
            assert all(isinstance(one.shape[0], str) for one in has)
        warm = config.model_warmup[0].inputs
        assert {name: list(warm[name].dims) for name in warm} == {one.name: list(one.dims) for one in config.input}
        assert config.dynamic_batching.preferred_batch_size == [config.max_batch_size]


def test_the_ensemble_scores_as_the_library_does(repository, triton, artifact):
    runtime = Runtime.open(artifact, threads=1)
    size = runtime.panel_size
    pixels = np.random.default_rng(0).integers(0, 256, (2, 5, size, size, 3), np.uint8)
    answer = Server(repository, triton).infer("tiny", {"pixels_a": pixels[0], "pixels_b": pixels[1]})
    logits = runtime.pair_logits(runtime.encode(pixels[0]).tokens, runtime.encode(pixels[1]).tokens)
    assert answer["raw_score"].shape == answer["relevance_score"].shape == (5, 1)
    np.testing.assert_allclose(answer["raw_score"][:, 0], logits, atol=1e-4)
    np.testing.assert_allclose(answer["relevance_score"][:, 0], runtime.relevance(logits), atol=1e-5)
    assert np.ptp(logits) > 1e-3


@pytest.mark.parametrize("channels", [5, 8])
def test_the_panel_rounds_tokens_as_the_runtime_does_to_the_bit(channels):
    codec, rng = TokenCodec((2, 3, 8), channels), np.random.default_rng(3)
    tokens = rng.normal(size=(400, 2, 3, 8)) * 2.0 ** rng.integers(-22, 12, (400, 2, 3, 1))
    tokens = tokens.astype(np.float16)
    tokens[:40] = 2.0 ** rng.integers(-24, 15, (40, 2, 3, 1))  # where a logarithm is a whole number
    tokens[40:45] = 0
    head = '<ir_version: 10, opset_import: ["" : 18]>'
    graph = onnx.parser.parse_model(
        f"{head} panel (float[N, 2, 3, 8] given) => (float[N, 2, 3, 8] tokens) {{ tokens = Identity(given) }}"
    )
    session = onnxruntime.InferenceSession(_panel_graph(graph.SerializeToString(), codec))
    found = np.asarray(session.run(None, {"given": tokens.astype(np.float32)})[0])
    assert np.array_equal(found, codec.round_tokens(tokens))
    assert found.dtype == np.float16


@pytest.fixture
def altered(artifact, tmp_path):
    """A copy of the artifact with other values in its manifest."""

    def make(**values):
        folder = tmp_path / "altered"
        shutil.copytree(artifact, folder)
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
        return folder

    return make


def test_every_question_has_a_column_of_both_scores_and_the_config_names_them(artifact_of_two, triton, tmp_path):
    write_repository(artifact_of_two, tmp_path / "models")
    server, runtime = Server(tmp_path / "models", triton), Runtime.open(artifact_of_two, threads=1)
    pixels = np.random.default_rng(4).integers(0, 256, (2, 5, 32, 32, 3), np.uint8)
    answer = server.infer("two", {"pixels_a": pixels[0], "pixels_b": pixels[1]})
    tokens = [runtime.encode(side).tokens for side in pixels]
    assert answer["raw_score"].shape == answer["relevance_score"].shape == (5, 2)
    for column, name in enumerate(runtime.questions):
        asked = runtime.asking(name)
        logits = asked.pair_logits(*tokens)
        np.testing.assert_allclose(answer["raw_score"][:, column], logits, atol=1e-4)
        np.testing.assert_allclose(answer["relevance_score"][:, column], asked.relevance(logits), atol=1e-5)
    for config in server.configs.values():
        assert config.parameters["questions"].string_value == "copy,thing"
    for name, has in ((name, session.get_outputs()) for name, session in server.sessions.items() if "pair" in name):
        assert [list(one.dims) for one in server.configs[name].output] == [one.shape[1:] for one in has] == [[2], [2]]


def test_other_models_stay_and_one_that_is_there_is_refused(artifact, altered, tmp_path):
    models = tmp_path / "models"
    (models / "other").mkdir(parents=True)
    write_repository(artifact, models)
    before = {path: path.stat().st_mtime_ns for path in models.rglob("*")}
    with pytest.raises(ArtifactError, match="has a model tiny_panel already; remove it"):
        write_repository(artifact, models)
    assert {path: path.stat().st_mtime_ns for path in models.rglob("*")} == before
    assert write_repository(altered(name="second"), models) == ["second_panel", "second_pair", "second"]
    assert {path.name for path in models.iterdir()} >= {"other", "tiny", "second"}


@pytest.mark.parametrize("name", ["../up", "a b"])
def test_a_name_that_is_no_folder_is_refused(altered, tmp_path, name):
    with pytest.raises(ArtifactError, match=r"the name must be one line without|cannot be a folder in a model rep"):
        write_repository(altered(name=name), tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_a_command_that_is_stopped_leaves_no_model_in_the_way_of_the_next(artifact, tmp_path, monkeypatch):
    rename, done = Path.rename, []

    def stopped(self, target):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(rename(self, target))

    monkeypatch.setattr(Path, "rename", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_repository(artifact, tmp_path)
    assert len(done) == 2
    assert list(tmp_path.iterdir()) == []


def test_diptych_export_writes_the_repository_of_an_artifact(artifact, tmp_path, capsys):
    assert main(["export", str(artifact), "--triton", str(tmp_path / "models"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    models = ["tiny_panel", "tiny_pair", "tiny"]
    assert said == {"triton": {"repository": str(tmp_path / "models"), "models": models}}
    assert {path.name for path in (tmp_path / "models").iterdir()} == set(models)
    assert Manifest.load(artifact).revision in (tmp_path / "models/tiny/config.pbtxt").read_text()
