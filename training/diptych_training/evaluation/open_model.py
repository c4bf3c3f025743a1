"""The models that `--model` and `--against` may name: a released one, an artifact, a checkpoint of training, or a
control on the panel part of one of these.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from diptych_runtime.models import bundled_models, find_checkpoint
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError

# Of a checkpoint (diptych_model.checkpoint), whose module would import torch.
_CHECKPOINT = ("config.json", "weights.safetensors")
# What may stand before a model and a colon.
CONTROLS = ("late", "twin", "untrained")


@contextmanager
def open_model(model: str, question: str | None = None, *, threads: int | None = None) -> Iterator[Runtime]:
    """Open the named model; a checkpoint is exported first, so that the measured model is the served one.

    It is asked the `question`, by default the one that models are asked unless somebody says otherwise. `threads` are
    the runtime's, by default all that may be used. `late:MODEL` is late interaction over the tokens of a model whose
    weights are there, and `twin:MODEL` the cosine of its embeddings: what its panel part is worth without its pair
    part. `untrained:MODEL` is the cosine of what its encoder saw before our training. What was exported is gone when
    the block ends. Raises `ArtifactError`, and `DataError` where a checkpoint cannot be exported for want of torch.
    """
    control, colon, of = model.partition(":")
    if not colon or control not in CONTROLS:
        control, of = "", model
    if not control and (model in bundled_models() or not is_checkpoint(Path(model))):
        yield Runtime.open(model, threads=threads).asking(question)
        return
    try:
        from diptych_export.artifact import export_artifact, export_checkpoint
        from diptych_training.learning.pretrained import load_untrained, related_by
    except ModuleNotFoundError as error:
        raise DataError(
            f"{model} is a checkpoint, which is exported before it is measured, and that needs {error.name}; "
            "install it with `pip install 'diptych[train,cpu]'`, or name an artifact"
        ) from None
    with tempfile.TemporaryDirectory(prefix="diptych-") as temporary:
        artifact = Path(temporary, "artifact")
        # Pairs enough to see a fault; ten thousand are for what is to be kept.
        if control:
            made = {
                "late": partial(related_by, "late"),
                "twin": partial(related_by, "siamese"),
                "untrained": load_untrained,
            }
            name = f"{control}:{Path(of).resolve().name}"
            export_artifact(made[control](find_checkpoint(of)), artifact, name=name, pairs=400)
        else:
            export_checkpoint(model, artifact, name=Path(model).resolve().name, pairs=400)
        yield Runtime.open(artifact, threads=threads).asking(question)


def is_checkpoint(directory: Path) -> bool:
    """True if a directory is a checkpoint and no artifact."""
    return all((directory / name).is_file() for name in _CHECKPOINT) and not (directory / "manifest.json").exists()
