"""Runs an artifact with ONNX Runtime, without torch: pixels to tokens and embeddings, pairs to scores and attention."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from diptych_runtime.calibration.evidence import Verification
from diptych_runtime.calibration.questions import default_question, resolve_question
from diptych_runtime.errors import ArgumentError, ArtifactError
from diptych_runtime.kernel import NAME, KernelError, Library, kernel_mode, load_kernel
from diptych_runtime.kernel.precision import PairGraph, pair_graph, pair_precision
from diptych_runtime.manifest import EXPLAIN_GRAPH, PAIR_GRAPH, PAIR_INT8_GRAPH, PANEL_GRAPH, Manifest, Question
from diptych_runtime.models import find_artifact, own_calibration
from diptych_runtime.own_calibration import OwnCalibration
from diptych_runtime.session import (
    CPU,
    CUDA,
    PROVIDERS,
    check_gpu,
    gpu_providers,
    import_onnxruntime,
    open_session,
    run_session,
    thread_count,
    why_unavailable,
)

PANEL_CHUNK, PAIR_CHUNK = 4, 8
GPU_PANEL_CHUNK, GPU_PAIR_CHUNK = 32, 256
_UNKNOWN_NODE = (
    f"the graph has no node {NAME}: the model was exported by an older version, or its mixer has no such attention; "
    "in the first case export its checkpoint again"
)


class Panels(NamedTuple):
    """The stored features of pictures: tokens float16 (B, N, M, d), embeddings float32 (B, e), rows of unit length."""

    tokens: np.ndarray
    embeddings: np.ndarray


class Runtime:
    """An opened artifact: `Runtime.open("photo")`. Thread-safe.

    The same picture and the same pair give the same bits whatever else is in the batch, and (a, b) the same as (b, a).
    A batch runs in chunks of `pair_chunk` pairs, `workers` of them at the same time. Tokens are
    rounded as they are kept (`codec`). `provider` is ONNX Runtime's name of what it runs on and `provider_reason` says
    why; `attention_path` says how the attention node is computed: "kernel (avx512)", or "function body: ..." with the
    reason, by the standard operators that the graph brings along; `pair_path` says in which precision pairs are scored,
    "int8 (avx512_vnni)" or "float32: ..." with the reason, and `scores_revision` names what made a score. `explains`
    says whether there is an `attention` to ask for. Where ONNX Runtime fails, such as without memory, ArtifactError
    is raised.

    `questions` are what one look at a pair answers, in the order of the logits' columns; `question` is the one that
    this runtime gives the scores, relevance and `thresholds` of, in the `column` of this number. `asking` has others.
    `own` is a calibration of one's own that is laid over the `released` manifest, if one is (`with_calibration`).
    `crops` is how large the crops are in which a query is looked for as well (`Question.crops`).
    """

    def __init__(
        self,
        manifest: Manifest,
        open_graph: Callable[[str], Any],
        *,
        provider: str,
        provider_reason: str,
        threads: int,
        attention_path: str,
        pair: PairGraph,
    ) -> None:
        self.manifest = self.released = manifest
        self.own: OwnCalibration | None = None
        self.name, self.revision = manifest.name, manifest.revision
        self.panel_size, self.token_shape, self.codec = manifest.panel_size, manifest.token_shape, manifest.codec
        self.embedding_dim, self.questions = manifest.embedding_dim, tuple(manifest.questions)
        self.provider, self.provider_reason, self.threads = provider, provider_reason, threads
        self.attention_path, self.pair_path = attention_path, pair.path
        self.scores_revision = manifest.revision + self.codec.suffix + pair.suffix
        on_cpu = provider == CPU
        self.workers = threads if on_cpu else 1
        self.panel_chunk, self.pair_chunk = (PANEL_CHUNK, PAIR_CHUNK) if on_cpu else (GPU_PANEL_CHUNK, GPU_PAIR_CHUNK)
        self.explains = EXPLAIN_GRAPH in manifest.digests
        self._panel, self._pair = open_graph(PANEL_GRAPH), open_graph(pair.file)
        self._explain = _Later(partial(open_graph, EXPLAIN_GRAPH))
        manifest.check_shapes(self._panel, self._pair)
        self._set_question(default_question(self.questions))

    @classmethod
    def open(
        cls,
        model: str | os.PathLike[str] = "photo",
        *,
        provider: str = "auto",
        threads: int | None = None,
        kernel: str | None = None,
        pairs: str | None = None,
    ) -> Runtime:
        """Open a bundled model by name, an artifact directory, or the file of a calibration of one's own over one of
        these, after checking the digests of its graphs.

        `provider` is "cpu", "cuda" (an error if it cannot be had: a blank picture is encoded), or "auto" (cuda if it
        can be had). `threads` defaults to `thread_count()`; `kernel` is "auto", "off" or "require" (see
        `kernel_mode`), and `pairs` "auto", "float32" or "int8" (see `pair_precision`). Raises ArtifactError.
        """
        if provider not in PROVIDERS:
            raise ArtifactError(f"the provider must be one of {', '.join(PROVIDERS)}, got {provider!r}")
        if threads is not None and threads < 1:
            raise ArtifactError(f"threads must be at least 1, got {threads}")
        mode, precision = kernel_mode(kernel), pair_precision(pairs)
        directory, own = find_artifact(model), own_calibration(model)
        manifest = Manifest.load(directory)
        ort, threads = import_onnxruntime(), threads or thread_count()

        def open_runtime(*providers: Any, ran_on: str, reason: str, library: Library | None, path: str) -> Runtime:
            made = cls(
                manifest,
                lambda file: open_session(manifest.read_checked(directory, file), list(providers), library=library),
                provider=ran_on,
                provider_reason=reason,
                threads=threads,
                attention_path=path,
                pair=pair_graph(manifest, library, precision),
            )
            return made if own is None else made.with_calibration(own)

        hindrance = "it was asked for" if provider == "cpu" else why_unavailable(ort)
        if provider != "cpu" and hindrance is None:
            asked = gpu_providers()
            try:
                library, path = _choose_attention(mode, f"it is for the CPU, and this runs on {CUDA}")
                on_gpu = open_runtime(*asked, ran_on=CUDA, reason=f"{provider} found it", library=library, path=path)
                check_gpu(on_gpu._panel, on_gpu._pair, GPU_PANEL_CHUNK)
                return on_gpu
            except ArtifactError as error:
                for file in (PANEL_GRAPH, PAIR_GRAPH):
                    manifest.read_checked(directory, file)  # damage is no fault of the GPU
                hindrance = str(error)
        if provider not in ("auto", "cpu"):
            raise ArtifactError(
                f"{provider} was asked for but cannot be had: {hindrance}; mend that or use the provider cpu"
            )
        known = NAME.encode() in manifest.read_checked(directory, PAIR_GRAPH)
        if PAIR_INT8_GRAPH in manifest.digests:
            manifest.read_checked(directory, PAIR_INT8_GRAPH)  # damage is no reason to go on without the kernel
        library, path = _choose_attention(mode, None if known else _UNKNOWN_NODE)
        on_cpu = partial(open_runtime, CPU, ran_on=CPU, reason=str(hindrance))
        if library is not None:
            try:
                return on_cpu(library=library, path=path)
            except ArtifactError as error:
                # Of another type than float32, for one. If it is not the kernel that is to blame, the body fails too.
                library, path = _choose_attention(mode, str(error))
        return on_cpu(library=library, path=path)

    def asking(self, question: str | None) -> Runtime:
        """This model asked another question, which costs nothing: the sessions are shared. None is no other one.

        A model that answers a single question gives its one score for any. Raises ArtifactError for a question that
        this one does not answer.
        """
        name = self.question if question is None else resolve_question(question, self.questions, self.name)
        if name == self.question:
            return self
        view = copy.copy(self)
        view._set_question(name)
        return view

    def with_calibration(self, own: OwnCalibration | None) -> Runtime:
        """This model with a calibration of one's own, or with None, as it was released.

        The sessions are shared. Raises ArtifactError for a calibration that was made over another model.
        """
        view = copy.copy(self)
        view.manifest, view.own = self.released if own is None else own.apply_to(self.released), own
        view._set_question(self.question)
        return view

    def encode(self, pixels: np.ndarray) -> Panels:
        """Pixels uint8 (B, S, S, 3) of `panel_pixels` -> tokens and embeddings; B may be 0."""
        size = self.panel_size
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != (size, size, 3):
            raise ArgumentError(f"pixels must be uint8 (B, {size}, {size}, 3), got {pixels.dtype} {pixels.shape}")
        tokens = np.empty((len(pixels), *self.token_shape), np.float16)
        embeddings = np.empty((len(pixels), self.embedding_dim), np.float32)

        def encode_rows(rows: slice) -> None:
            made, embeddings[rows] = self._run_chunk(self._panel, {"pixels": pixels[rows]}, self.panel_chunk)
            tokens[rows] = self.codec.round_tokens(made.astype(np.float16))

        self._in_chunks(encode_rows, len(pixels), self.panel_chunk)
        return Panels(tokens, embeddings)

    def weight_queries(self, embeddings: np.ndarray) -> np.ndarray:
        """The embeddings float32 (B, e) weighted as those of queries that ask its question.

        Their inner products with embeddings of `encode` are the cosines by which candidates are found, -1 to 1; another
        question weighs other parts of the embedding.
        """
        return self.question_settings.weight_queries(embeddings)

    def pair_logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Logits float32 (P,) of its question, of pairs of tokens (P, N, M, d); one of a side may stand for P."""
        return np.ascontiguousarray(self.all_logits(tokens_a, tokens_b)[:, self.column])

    def all_logits(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """`pair_logits` of all `questions` float32 (P, Q), by the same look."""
        tokens_a, tokens_b = self.broadcast_pairs(tokens_a, tokens_b)
        logits = np.empty((len(tokens_a), len(self.questions)), np.float32)

        def score_rows(rows: slice) -> None:
            logits[rows] = self.logits_on_this_thread(tokens_a[rows], tokens_b[rows])

        self._in_chunks(score_rows, len(logits), self.pair_chunk)
        return logits

    def logits_on_this_thread(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Logits float32 (P, Q) of all `questions` for tokens from `broadcast_pairs`, computed on this thread alone."""
        return self._run_pairs(self._pair, tokens_a, tokens_b)[0].reshape(len(tokens_a), -1)

    def attention(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> np.ndarray:
        """Which patch looks at which across the seam: float32 (P, T, T) of pairs as in `pair_logits`, T = N M but for a
        model whose tokens are pixels, which has fewer patches.

        Rows are the patches of a, columns those of b, both row by row; swapping the panels transposes the map. An
        entry is the mean share of a patch's attention (both ways, all blocks and heads) that the other patch gets. What
        stays within a panel is missing, so their sum over T is the share that crosses, between 0 and 1.
        Raises ArtifactError where the artifact has no explain graph.
        """
        tokens_a, tokens_b = self.broadcast_pairs(tokens_a, tokens_b)
        if not self.explains:
            raise ArtifactError(
                f"the model {self.name!r} cannot show its attention: the artifact has no {EXPLAIN_GRAPH}; export its "
                "checkpoint again with `diptych export CHECKPOINT -o DIR`, unless its mixer has none to show "
                "(convolution, for one, has not)"
            )
        session = self._explain()
        patches = session.get_outputs()[0].shape[-1]
        maps = np.empty((len(tokens_a), patches, patches), np.float32)

        def map_rows(rows: slice) -> None:
            seen, swapped = self._run_pairs(session, tokens_a[rows], tokens_b[rows])
            maps[rows] = np.where(swapped[:, None, None], seen.swapaxes(1, 2), seen)

        self._in_chunks(map_rows, len(maps), self.pair_chunk)
        return maps

    def relevance(self, logits: np.ndarray) -> np.ndarray:
        """Probabilities float32 in [0, 1] of its question: sigmoid(scale * logit + offset), computed in float64."""
        return self.question_settings.relevance(logits)

    @property
    def question_settings(self) -> Question:
        """The settings of its question, as the manifest describes it."""
        return self.manifest.questions[self.question]

    @property
    def verification(self) -> Verification | None:
        """The calibration of the asked question's scores by a closer look, if the model has one."""
        return self.question_settings.verification

    def broadcast_pairs(self, tokens_a: np.ndarray, tokens_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both sides in float16 with as many rows; one row stands for the other's many, without a copy.

        Raises ArgumentError where they do not fit.
        """
        tokens_a, tokens_b = self._check_tokens(tokens_a, "tokens_a"), self._check_tokens(tokens_b, "tokens_b")
        if len(tokens_a) != len(tokens_b) and 1 not in (len(tokens_a), len(tokens_b)):
            raise ArgumentError(f"tokens_a has {len(tokens_a)} rows and tokens_b {len(tokens_b)}; give as many, or one")
        shape = (len(tokens_b) if len(tokens_a) == 1 else len(tokens_a), *self.token_shape)
        return np.broadcast_to(tokens_a, shape), np.broadcast_to(tokens_b, shape)

    def _check_tokens(self, tokens: np.ndarray, name: str) -> np.ndarray:
        if tokens.ndim != 4 or tokens.shape[1:] != self.token_shape:
            raise ArgumentError(f"{name} must be (P, {', '.join(map(str, self.token_shape))}), got {tokens.shape}")
        return np.ascontiguousarray(tokens, np.float16)

    def _set_question(self, question: str) -> None:
        """Give the scores of this question from now on."""
        self.question, self.column = question, self.questions.index(question)
        self.thresholds, self.crops = dict(self.question_settings.thresholds), self.question_settings.crops

    def _in_chunks(self, run: Callable[[slice], None], count: int, chunk: int) -> None:
        """Run the rows [0, count) chunk by chunk, several at a time: a session has one thread, and is shared."""
        chunks = [slice(start, min(start + chunk, count)) for start in range(0, count, chunk)]
        if self.workers == 1 or len(chunks) < 2:
            for rows in chunks:
                run(rows)
            return
        pool = ThreadPoolExecutor(min(self.workers, len(chunks)), thread_name_prefix="diptych-run")
        try:
            list(pool.map(run, chunks))
        finally:
            # After Ctrl-C the rest must not be computed first.
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_pairs(self, session: Any, tokens_a: np.ndarray, tokens_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The one output of a graph for pairs, chunk by chunk, and which of them it was given in the other order."""
        kind = np.float16 if session.get_inputs()[0].type == "tensor(float16)" else np.float32
        first, second, swapped = _canonical_order(tokens_a, tokens_b, kind)
        outputs = []
        for start in range(0, len(first), self.pair_chunk):
            rows = slice(start, start + self.pair_chunk)
            outputs += self._run_chunk(session, {"tokens_a": first[rows], "tokens_b": second[rows]}, self.pair_chunk)
        return np.concatenate(outputs), swapped

    def _run_chunk(self, session: Any, feeds: Mapping[str, np.ndarray], chunk: int) -> list[np.ndarray]:
        """Run one chunk so that no row's bits depend on how many rows there are.

        On the CPU a batch of one takes other kernels than all larger ones, which agree to the bit (a test holds them to
        it), so it is run twice over. On a GPU every size may differ, so there is one size.
        """
        count = len(next(iter(feeds.values())))
        missing = (2 if self.provider == CPU else chunk) - count
        if missing > 0:
            feeds = {name: np.concatenate([rows, np.repeat(rows[-1:], missing, 0)]) for name, rows in feeds.items()}
        return [output[:count] for output in run_session(session, feeds)]


class _Later:
    """An object opened on first use, and once: scoring alone does not pay for the explain graph."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open, self._lock, self._opened = open, Lock(), None

    def __call__(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened


def _canonical_order(
    tokens_a: np.ndarray, tokens_b: np.ndarray, kind: type[np.floating]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both sides of each pair as `kind`, in the order of their bits, so that the order they were given in leaves no
    trace, and which pairs (P,) were swapped for it.
    """
    bits_a, bits_b = (np.ascontiguousarray(t).reshape(len(t), -1).view(np.uint16) for t in (tokens_a, tokens_b))
    rows, first = np.arange(len(bits_a)), (bits_a != bits_b).argmax(1)
    swapped = bits_a[rows, first] > bits_b[rows, first]
    one, other = tokens_a.astype(kind), tokens_b.astype(kind)
    one[swapped], other[swapped] = tokens_b[swapped], tokens_a[swapped]
    return one, other, swapped


def _choose_attention(mode: str, obstacle: str | None) -> tuple[Library | None, str]:
    """The kernel where it is wanted and can be had, and how the attention is computed then."""
    if mode == "off":
        return None, "function body: the kernel is off"
    if obstacle is None:
        try:
            library = load_kernel()
            return library, f"kernel ({library.instructions})"
        except KernelError as error:
            obstacle = str(error)
    if mode == "require":
        raise ArtifactError(f"the kernel is required but cannot be used: {obstacle}")
    return None, f"function body: no kernel, {obstacle}"
