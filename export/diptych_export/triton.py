"""A model repository for NVIDIA Triton, and for KServe, which runs it: an artifact's graphs as three of its models.

`NAME_panel` makes of pixels uint8 (S, S, 3) what is kept of a picture: tokens in half precision and an embedding.
`NAME_pair` makes of two pictures' tokens `raw_score` (Q,), the logits, and `relevance_score` (Q,), calibrated to
[0, 1]; the parameter `questions` names the Q columns. `NAME` is both in one, from two pictures' pixels to the scores.
The node of our own runs by the body that it has along.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from diptych_runtime.errors import ArtifactError
from diptych_runtime.manifest import PAIR_GRAPH, PANEL_GRAPH, Manifest, Question
from diptych_runtime.models import find_artifact
from diptych_runtime.token_codec import LARGEST, LEAST_EXPONENT, TokenCodec

if TYPE_CHECKING:
    import onnx

VERSION = "1"
PANEL_BATCH, PAIR_BATCH = 32, 256  # what a GPU likes; Triton takes fewer where there are fewer
DELAY = 1000  # microseconds that the first of a batch waits for others

_TYPES = {"UINT8": "TYPE_UINT8", "FLOAT16": "TYPE_FP16", "FLOAT": "TYPE_FP32"}
_SCORES = ("raw_score", "relevance_score")

Tensors = Mapping[str, tuple[str, Sequence[int]]]


def write_repository(model: str | os.PathLike[str], directory: str | os.PathLike[str]) -> list[str]:
    """Write the models of an artifact, or of a released model by name, into a model repository; returns their names.

    Other models of the repository are left alone. Raises ArtifactError where the artifact is damaged, where onnx is not
    installed, and where a model of one of these names is there: Triton may be serving it.
    """
    source, target = find_artifact(model), Path(directory)
    manifest = Manifest.load(source)
    panel, pair, name = f"{manifest.name}_panel", f"{manifest.name}_pair", manifest.name
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise ArtifactError(f"{name!r} cannot be a folder in a model repository; export the model by another --name")
    for made in (panel, pair, name):
        if (target / made).exists():
            raise ArtifactError(f"{target} has a model {made} already; remove it, or choose another directory")
    size = manifest.panel_size
    pixels = {"pixels": ("UINT8", [size, size, 3])}
    kept = {"tokens": ("FLOAT16", manifest.token_shape), "embeddings": ("FLOAT", [manifest.embedding_dim])}
    tokens: Tensors = dict.fromkeys(("tokens_a", "tokens_b"), ("FLOAT16", manifest.token_shape))
    pictures: Tensors = dict.fromkeys(("pixels_a", "pixels_b"), pixels["pixels"])
    scores: Tensors = dict.fromkeys(_SCORES, ("FLOAT", [len(manifest.questions)]))
    files = {
        f"{panel}/config.pbtxt": _model_config(panel, manifest, pixels, kept, PANEL_BATCH),
        f"{panel}/{VERSION}/model.onnx": _panel_graph(manifest.read_checked(source, PANEL_GRAPH), manifest.codec),
        f"{pair}/config.pbtxt": _model_config(pair, manifest, tokens, scores, PAIR_BATCH),
        f"{pair}/{VERSION}/model.onnx": _pair_graph(
            manifest.read_checked(source, PAIR_GRAPH), list(manifest.questions.values())
        ),
        f"{name}/config.pbtxt": _ensemble_config(manifest, pictures, scores, panel, pair),
        # An ensemble has no file of its own, but a folder, and object stores keep no empty ones.
        f"{name}/{VERSION}/revision": manifest.revision,
    }
    try:
        _move_models(target, files, (panel, pair, name))
    except OSError as error:
        raise ArtifactError(f"{target} cannot be written ({error.strerror}); choose another directory") from None
    return [panel, pair, name]


def _move_models(target: Path, files: Mapping[str, bytes | str], models: Sequence[str]) -> None:
    """Move every model into the repository, an ensemble after its parts: a polling server sees only complete models."""
    target.mkdir(parents=True, exist_ok=True)
    # Within the repository: it may be a mount, which no rename leaves.
    with tempfile.TemporaryDirectory(dir=target, prefix=".diptych-") as temporary:
        for file, data in files.items():
            path = Path(temporary, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        with ExitStack() as undo:
            for model in models:
                Path(temporary, model).rename(target / model)
                undo.callback(shutil.rmtree, target / model, ignore_errors=True)
            undo.pop_all()


def _panel_graph(graph: bytes, codec: TokenCodec) -> bytes:
    """Tokens in half precision, rounded as they are stored, whatever the graph computes in."""
    onnx = _import_onnx()
    model = onnx.load_from_string(graph)
    if codec.byte_channels:
        _round_tokens(model, codec)
    for output in model.graph.output:
        wanted = onnx.TensorProto.FLOAT16 if output.name == "tokens" else onnx.TensorProto.FLOAT
        if output.type.tensor_type.elem_type != wanted:
            inside = _rename_value(model, output.name)
            model.graph.node.append(onnx.helper.make_node("Cast", [inside], [output.name], to=wanted))
            output.type.tensor_type.elem_type = wanted
    return model.SerializeToString(deterministic=True)


def _round_tokens(model: onnx.ModelProto, codec: TokenCodec) -> None:
    """Put `TokenCodec.round_tokens` behind the tokens of a panel graph."""
    helper, proto = _import_onnx().helper, _import_onnx().TensorProto
    nodes: list[Any] = []

    def add_constant(value: float | list[int]) -> str:
        name = f"rounded_constant_{len(model.graph.initializer)}"
        kind, shape = (proto.INT64, [len(value)]) if isinstance(value, list) else (proto.FLOAT, [])
        numbers = value if isinstance(value, list) else [value]
        model.graph.initializer.append(helper.make_tensor(name, kind, shape, numbers))
        return name

    def add_node(operator: str, *given: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"rounded_{len(nodes)}_{number}" for number in range(outputs)]
        nodes.append(helper.make_node(operator, list(given), names, **attributes))
        return names[0] if outputs == 1 else names

    tokens = add_node("Cast", add_node("Cast", _rename_value(model, "tokens"), to=proto.FLOAT16), to=proto.FLOAT)
    exact = codec.shape[2] - codec.byte_channels
    known, rest = tokens, []
    if exact:
        sizes = add_constant([codec.byte_channels, exact])
        known, *rest = add_node("Split", tokens, sizes, outputs=2, axis=-1)
    top = add_node("ReduceMax", add_node("Abs", known), add_constant([-1]), keepdims=1)
    top = add_node("Max", top, add_constant(2.0 ** (LEAST_EXPONENT - 1)))
    # The power of two next below the largest: a logarithm may be off by its last bit, and so by one.
    two, half = add_constant(2.0), add_constant(0.5)
    power = add_node(
        "Pow", two, add_node("Floor", add_node("Mul", add_node("Log", top), add_constant(1 / math.log(2))))
    )
    double, halved = add_node("Mul", power, two), add_node("Mul", power, half)
    power = add_node("Where", add_node("Less", top, power), halved, power)
    power = add_node("Where", add_node("GreaterOrEqual", top, double), double, power)
    step = add_node("Mul", power, add_constant(2.0**-6))
    steps = add_node(
        "Clip",
        add_node("Round", add_node("Div", known, step)),
        add_constant(-float(LARGEST)),
        add_constant(float(LARGEST)),
    )
    rounded = add_node("Mul", steps, step)
    whole = add_node("Concat", rounded, *rest, axis=-1) if rest else rounded
    nodes.append(helper.make_node("Cast", [whole], ["tokens"], to=proto.FLOAT16))
    model.graph.node.extend(nodes)
    next(one for one in model.graph.output if one.name == "tokens").type.tensor_type.elem_type = proto.FLOAT16


def _pair_graph(graph: bytes, questions: Sequence[Question]) -> bytes:
    """Tokens in half precision, as they are stored; logits and relevance, sigmoid(scale * logit + offset), of each."""
    onnx = _import_onnx()
    model = onnx.load_from_string(graph)
    helper, proto = onnx.helper, onnx.TensorProto
    for given in model.graph.input:
        kind = given.type.tensor_type.elem_type
        if kind != proto.FLOAT16:
            model.graph.node.insert(
                0, helper.make_node("Cast", [given.name], [_rename_value(model, given.name)], to=kind)
            )
            given.type.tensor_type.elem_type = proto.FLOAT16
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    scale, offset, shape = "calibration_scale", "calibration_offset", "calibration_shape"
    count = len(questions)
    model.graph.initializer.extend(
        [
            helper.make_tensor(scale, proto.FLOAT, [count], [question.scale for question in questions]),
            helper.make_tensor(offset, proto.FLOAT, [count], [question.offset for question in questions]),
            helper.make_tensor(shape, proto.INT64, [2], [-1, count]),
        ]
    )
    model.graph.node.extend(
        [
            helper.make_node("Cast", ["logits"], ["calibration_logits"], to=proto.FLOAT),
            helper.make_node("Reshape", ["calibration_logits", shape], ["raw_score"]),
            helper.make_node("Mul", ["raw_score", scale], ["calibration_scaled"]),
            helper.make_node("Add", ["calibration_scaled", offset], ["calibration_sum"]),
            helper.make_node("Sigmoid", ["calibration_sum"], ["relevance_score"]),
        ]
    )
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, proto.FLOAT, [batch, count]) for name in _SCORES)
    return model.SerializeToString(deterministic=True)


def _rename_value(model: onnx.ModelProto, name: str) -> str:
    """Rename a value within the graph and return its new name; the declarations of inputs and outputs stay."""
    inside = f"{name}_inside"
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [inside if one == name else one for one in names]
    return inside


def _import_onnx() -> ModuleType:
    try:
        import onnx
    except ModuleNotFoundError:
        raise ArtifactError("writing for Triton needs onnx; install it with `pip install onnx`") from None
    return onnx


def _model_config(name: str, manifest: Manifest, inputs: Tensors, outputs: Tensors, batch: int) -> str:
    """One graph under ONNX Runtime: requests that come together share a batch, and one runs before it is ready."""
    warm = "".join(
        f'      inputs {{ key: "{key}" value {{ data_type: {_TYPES[kind]} dims: {list(shape)} zero_data: true }} }}\n'
        for key, (kind, shape) in inputs.items()
    )
    return (
        f'name: "{name}"\nbackend: "onnxruntime"\nmax_batch_size: {batch}\n'
        f"{_tensor_configs('input', inputs)}{_tensor_configs('output', outputs)}"
        f"dynamic_batching {{ preferred_batch_size: [ {batch} ] max_queue_delay_microseconds: {DELAY} }}\n"
        f'model_warmup [\n    {{\n      name: "zeros"\n      batch_size: 1\n{warm}    }}\n]\n'
        f"{_parameter_configs(manifest)}"
    )


def _ensemble_config(manifest: Manifest, pictures: Tensors, scores: Tensors, panel: str, pair: str) -> str:
    """Both pictures through the panel graph, then their tokens through the pair graph."""

    def step_config(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        maps = [
            f'      {kind}_map {{ key: "{key}" value: "{value}" }}\n'
            for kind, names in (("input", inputs), ("output", outputs))
            for key, value in names.items()
        ]
        return f'    {{\n      model_name: "{model}"\n      model_version: {VERSION}\n{"".join(maps)}    }}'

    encoded = [step_config(panel, {"pixels": f"pixels_{side}"}, {"tokens": f"tokens_{side}"}) for side in "ab"]
    scored = step_config(pair, {f"tokens_{side}": f"tokens_{side}" for side in "ab"}, {name: name for name in _SCORES})
    return (
        f'name: "{manifest.name}"\nplatform: "ensemble"\nmax_batch_size: {PANEL_BATCH}\n'
        f"{_tensor_configs('input', pictures)}{_tensor_configs('output', scores)}"
        f"ensemble_scheduling {{\n  step [\n"
        + ",\n".join([*encoded, scored])
        + f"\n  ]\n}}\n{_parameter_configs(manifest)}"
    )


def _tensor_configs(what: str, tensors: Tensors) -> str:
    lines = (
        f'    {{ name: "{name}" data_type: {_TYPES[kind]} dims: {list(shape)} }}'
        for name, (kind, shape) in tensors.items()
    )
    return f"{what} [\n" + ",\n".join(lines) + "\n]\n"


def _parameter_configs(manifest: Manifest) -> str:
    said = {"revision": manifest.revision, "questions": ",".join(manifest.questions)}
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in said.items()
    )
