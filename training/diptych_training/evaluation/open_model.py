"""The models that `--model` and `--against` may name: a released one, an artifact, or a checkpoint of training."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diptych_runtime.models import bundled_models
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError

# Of a checkpoint (diptych_model.checkpoint), whose module would import torch.
_CHECKPOINT = ("config.json", "weights.safetensors")


@contextmanager
def open_model(model: str, question: str | None = None, *, threads: int | None = None) -> Iterator[Runtime]:
    """Open the named model; a checkpoint is exported first, so that the measured model is the served one.

    It is asked the `question`, by default the one that models are asked unless somebody says otherwise. `threads` are
    the runtime's, by default all that may be used. What was exported is gone when the block ends. Raises
    `ArtifactError`, and `DataError` where a checkpoint cannot be exported for want of torch.
    """
    if model in bundled_models() or not is_checkpoint(Path(model)):
        yield Runtime.open(model, threads=threads).asking(question)
        return
    try:
        from diptych_export.artifact import export_checkpoint
    except ModuleNotFoundError as error:
        raise DataError(
            f"{model} is a checkpoint, which is exported before it is measured, and that needs {error.name}; "
            "install it with `pip install 'diptych[train,cpu]'`, or name an artifact"
        ) from None
    with tempfile.TemporaryDirectory(prefix="diptych-") as temporary:
        artifact = Path(temporary, "artifact")
        # Pairs enough to see a fault; ten thousand are for what is to be kept.
        export_checkpoint(model, artifact, name=Path(model).resolve().name, pairs=400)
        yield Runtime.open(artifact, threads=threads).asking(question)


def is_checkpoint(directory: Path) -> bool:
    """True if a directory is a checkpoint and no artifact."""
    return all((directory / name).is_file() for name in _CHECKPOINT) and not (directory / "manifest.json").exists()
