import ctypes
import json
import logging
import shutil
import sys
from types import ModuleType
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state  # pyright: ignore[reportAttributeAccessIssue]

from diptych_export.parity import drawn_pixels
from diptych_runtime import session
from diptych_runtime.errors import ArtifactError
from diptych_runtime.runtime import GPU_PAIR_CHUNK, GPU_PANEL_CHUNK, Runtime
from diptych_runtime.session import CPU, CUDA, cgroup_quota, import_onnxruntime

raised: Any = onnxruntime_pybind11_state
# As they came on an H100.
NO_CUDNN = raised.NotImplemented("[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : cuDNN is unavailable")
NO_DEVICE = RuntimeError(
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_call.cc:154 std::conditional_t<THRW, void, Status> "
    "onnxruntime::CudaCall(ERRTYPE, const char*) [with ERRTYPE = cudaError; bool THRW = true] "
    "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; line=355 ; expr=cudaSetDevice(0); \n"
)
NO_MEMORY = raised.Fail(
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Clip node. Name:'node_relu6' Status "
    "Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void* onnxruntime::BFCArena::"
    "AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Available memory of 29796864 is smaller than requested "
    "bytes of 37748736\n"
)


class Device:
    """A GPU that is only said to be there: what it was `asked` for, and how it fails to `open` or to `run`."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.open: Exception | None = None
        self.run: Exception | None = None


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """An ONNX Runtime that has a GPU, says it runs there, and computes on the CPU. All else, what it does about errors
    too, is its own.
    """
    device = Device()

    class Inner:
        def __init__(self, session):
            self._session = session

        def run(self, *given):
            if device.run is not None:
                raise device.run
            return self._session.run(*given)

        def __getattr__(self, name):
            return getattr(self._session, name)

    class Session(onnxruntime.InferenceSession):
        def _create_inference_session(self, providers, provider_options, disabled_optimizers=None):
            self._first = providers[0] if isinstance(providers[0], str) else providers[0][0]
            if self._first != CPU:
                device.asked.append(providers)
                if device.open is not None:
                    raise device.open
            super()._create_inference_session([CPU], provider_options, disabled_optimizers)
            if self._first != CPU:
                self._sess = Inner(self._sess)

        def get_providers(self):
            return [CPU] if self._first == CPU else [self._first, CPU]

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(session, "_is_loadable", lambda library: True)
    monkeypatch.setenv("HOME", str(tmp_path))
    return device


def test_a_gpu_that_was_asked_for_and_cannot_be_had_is_an_error_and_auto_says_why_it_took_the_cpu(
    artifact, monkeypatch
):
    ort = ModuleType("onnxruntime")
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CUDA], raising=False)
    monkeypatch.setattr(ctypes, "CDLL", lambda library: (_ for _ in ()).throw(OSError(library)))
    assert session.why_unavailable(ort) == "there is no NVIDIA driver here"
    monkeypatch.setattr(session, "_is_loadable", lambda library: True)
    assert session.why_unavailable(ort) is None
    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has CUDA")
    with pytest.raises(ArtifactError, match=r"cuda was asked for but cannot be had: the installed onnxruntime has no"):
        Runtime.open(artifact, provider="cuda")
    runtime = Runtime.open(artifact, provider="auto")
    assert runtime.provider == CPU
    assert "has no CUDA" in runtime.provider_reason


def test_on_a_gpu_every_batch_has_one_size_and_the_kernel_of_the_cpu_is_not_there(artifact, gpu, monkeypatch):
    monkeypatch.setenv("DIPTYCH_GPU_MEMORY", "512")
    runtime, cpu = Runtime.open(artifact, provider="cuda"), Runtime.open(artifact, provider="cpu", kernel="off")
    assert (runtime.provider, runtime.provider_reason) == (CUDA, "cuda found it")
    assert runtime.attention_path == f"function body: no kernel, it is for the CPU, and this runs on {CUDA}"
    (asked, options), last = gpu.asked[0]
    assert (asked, last) == (CUDA, CPU)
    limits = {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC", "gpu_mem_limit": str(512 * 2**20)}
    assert options.items() >= limits.items()
    batches = []
    for graph in (runtime._panel, runtime._pair):
        run = graph.run

        def recorded(names, feeds, run=run):
            batches.append(len(next(iter(feeds.values()))))
            return run(names, feeds)

        graph.run = recorded
    panels = runtime.encode(drawn_pixels(GPU_PANEL_CHUNK + 1, runtime.panel_size, seed=1))
    logits = runtime.pair_logits(panels.tokens[:1], np.repeat(panels.tokens, 9, 0))
    assert batches == [GPU_PANEL_CHUNK] * 2 + [GPU_PAIR_CHUNK] * 2
    assert np.array_equal(logits, cpu.pair_logits(panels.tokens[:1], np.repeat(panels.tokens, 9, 0)))


@pytest.mark.parametrize("wrong", ["0", "-1", "2 GB"])
def test_a_limit_of_memory_that_is_none_is_refused(wrong, artifact, gpu, monkeypatch):
    monkeypatch.setenv("DIPTYCH_GPU_MEMORY", wrong)
    with pytest.raises(ArtifactError, match=f"must be a whole number of MiB from 1 to 1,073,741,823, got {wrong!r}"):
        Runtime.open(artifact, provider="cuda")


@pytest.mark.parametrize(
    ("at", "error", "reason"),
    [
        ("open", NO_DEVICE, "cannot open the artifact's graph: CUDA failure 100: no CUDA-capable device is detected"),
        ("run", NO_CUDNN, "failed on CUDAExecutionProvider: cuDNN is unavailable"),
        ("run", NO_MEMORY, "36.0 MiB of the GPU's memory were needed and 28.4 MiB left of DIPTYCH_GPU_MEMORY=100"),
        ("run", raised.EPFail("CUBLAS failure 3: ALLOC_FAILED ; GPU=0"), "CUBLAS failure 3: ALLOC_FAILED"),
    ],
)
def test_a_gpu_that_fails_is_noticed_at_opening_and_auto_takes_the_cpu(
    at, error, reason, artifact, gpu, monkeypatch, capfd
):
    monkeypatch.setenv("DIPTYCH_GPU_MEMORY", "100")
    setattr(gpu, at, error)
    with pytest.raises(ArtifactError, match=r"^cuda was asked for but cannot be had: ONNX Runtime ") as caught:
        Runtime.open(artifact, provider="cuda")
    assert reason in str(caught.value)
    assert str(caught.value).endswith("; mend that or use the provider cpu")
    assert "\n" not in str(caught.value)
    runtime = Runtime.open(artifact, provider="auto")
    assert runtime.provider == CPU
    assert reason in runtime.provider_reason
    assert capfd.readouterr() == ("", "")


def test_damage_is_not_blamed_on_the_gpu(artifact, gpu, tmp_path):
    broken = shutil.copytree(artifact, tmp_path / "broken")
    (broken / "pair.onnx").write_bytes(b"")
    for provider in ("auto", "cuda"):
        with pytest.raises(ArtifactError, match=r"^\S+pair.onnx is damaged"):
            Runtime.open(broken, provider=provider)


def scored(runtime, panels):
    return runtime.pair_logits(panels.tokens[:1], panels.tokens)


@pytest.mark.parametrize("error", [NO_MEMORY, raised.EPFail("CUDA failure 700: an illegal memory access ; GPU=0")])
def test_a_gpu_that_fails_later_is_an_error_of_one_line_and_never_silently_the_cpu(
    error, artifact, gpu, monkeypatch, capfd
):
    monkeypatch.setenv("DIPTYCH_GPU_MEMORY", "100")
    runtime = Runtime.open(artifact, provider="cuda")
    panels = runtime.encode(drawn_pixels(2, runtime.panel_size, seed=1))
    logits = scored(runtime, panels)
    gpu.run = error
    blank = np.zeros((1, runtime.panel_size, runtime.panel_size, 3), np.uint8)
    for compute in (lambda: runtime.encode(blank), lambda: scored(runtime, panels)):
        with pytest.raises(ArtifactError, match=r"^ONNX Runtime \S+ failed on CUDAExecutionProvider: .*") as caught:
            compute()
        assert str(caught.value).endswith("; mend that or use the provider cpu")
        assert "\n" not in str(caught.value)
        assert ("DIPTYCH_GPU_MEMORY=100" in str(caught.value)) == (error is NO_MEMORY)
    assert runtime._panel.get_providers()[0] == CUDA
    gpu.run = None
    assert np.array_equal(scored(runtime, panels), logits)
    assert capfd.readouterr() == ("", "")


def test_what_onnx_runtime_says_of_missing_libraries_is_in_the_reason_and_not_on_standard_output(
    artifact, gpu, monkeypatch, capfd, caplog
):
    def preload():
        print("Failed to load libcublas.so.13: cannot open shared object file")
        print("Please follow https://onnxruntime.ai/docs/install/#cuda-and-cudnn to install CUDA.")

    monkeypatch.setattr(onnxruntime, "preload_dlls", preload, raising=False)
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda self: [CPU])
    with caplog.at_level(logging.DEBUG, session.__name__):
        runtime = Runtime.open(artifact, provider="auto")
    reason = "ONNX Runtime could not start it (Failed to load libcublas.so.13: cannot open shared object file; it needs"
    assert runtime.provider_reason.startswith(reason)
    assert "Please follow https" in caplog.text
    with pytest.raises(ArtifactError, match=r"cuda was asked for but cannot be had: .*libcublas\.so\.13"):
        Runtime.open(artifact, provider="cuda")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000"}, "0::/a/b\n", 0.5),
        ({"cpu.max": "200000 100000"}, "0::/outside/this/view\n", 2.0),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/\n9:memory:/x\n", 3.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "1:cpu:/\n", None),
        (
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "50000", "cpu,cpuacct/x/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/x\n",
            0.5,
        ),
        ({"cpu.max": "nonsense"}, "0::/\n", None),
        ({}, "0::/\n", None),
    ],
)
def test_the_tightest_quota_of_all_levels_counts(files, membership, expected, tmp_path):
    root = tmp_path / "cgroup"
    root.mkdir()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "membership").write_text(membership)
    assert cgroup_quota(root, tmp_path / "membership") == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"panel_size": 64},
        {"token_shape": [4, 4, 13]},
        {"embedding_dim": 10**12},
        {"questions": {"copy": {}, "thing": {}}},
    ],
)
def test_a_manifest_of_other_shapes_than_the_graphs_is_refused_before_a_picture_is_read(artifact, tmp_path, changed):
    folder = shutil.copytree(artifact, tmp_path / "other")
    described = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(described | changed))
    with pytest.raises(ArtifactError, match=r"its (panel|pair) graph (takes|gives) .* export the artifact again"):
        Runtime.open(folder, provider="cpu", threads=1)


def test_without_onnx_runtime_the_line_installs_it_and_one_that_cannot_be_imported_says_why(monkeypatch, tmp_path):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(ArtifactError, match=r"not installed; install it with `pip install 'diptych\[cpu\]'`"):
            import_onnxruntime()
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libdnnl is missing')")
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ArtifactError, match="ONNX Runtime cannot be imported: libdnnl is missing; try again"):
        import_onnxruntime()


def test_memory_that_runs_out_stays_what_it_is(artifact, monkeypatch):
    runtime = Runtime.open(artifact, provider="cpu")
    monkeypatch.setattr(runtime._panel, "run", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        runtime.encode(np.zeros((1, runtime.panel_size, runtime.panel_size, 3), np.uint8))


def adding(location: str) -> bytes:
    """A graph that adds three numbers of another file to its input."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value=location)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights])
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]).SerializeToString()


@pytest.mark.parametrize("location", ["weights.bin", "../{}/weights.bin", "{}", "*/_ORT_MEM_ADDR_/*"])
def test_a_graph_that_names_another_file_is_refused_wherever_that_lies(location, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    graph = adding(location.format(tmp_path.name))
    with pytest.raises(ArtifactError, match="the artifact's graph names other files, which its digests do not cover"):
        session.open_session(graph)


@pytest.mark.parametrize("length", [b"\x09", b"\x89\x00", b"\x89\x80\x00", b"\x89" + 8 * b"\x80" + b"\x00"])
def test_no_spelling_of_its_length_hides_a_node_or_a_place_that_names_a_file(length):
    for hidden in (b"\x22" + length + b"EPContext", b"\x0a\x88" + length[1:] + b"location"):
        if len(length) > 1 or b"EPContext" in hidden:
            with pytest.raises(ArtifactError, match="names other files"):
                session.open_session(hidden)
