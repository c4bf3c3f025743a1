"""The report of an evaluation: one HTML file that needs nothing else."""

from pathlib import Path

from diptych_runtime.atomic import replacing_file
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.report.examples import pair_figures
from diptych_training.evaluation.report.markup import document
from diptych_training.evaluation.report.page import page
from diptych_training.evaluation.series import Evidence


def write_report(evidence: Evidence, runtime: Runtime, path: Path) -> None:
    """Write the evidence as one HTML file, whole or not at all: figures, curves, calibration, hardest pairs.

    The file fetches nothing and runs nothing. `runtime` is the model that was measured; where its artifact can explain,
    the pairs carry the strongest attention across the seam. Raises `DataError` where the file cannot be written.
    """
    missed, mistaken = (pair_figures(pairs, runtime) for pairs in (evidence.missed, evidence.mistaken))
    text = document(page(evidence, missed, mistaken))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as unfinished:
            # File names need not be UTF-8; what is not stands as a number.
            unfinished.write_text(text, "utf-8", "xmlcharrefreplace")
    except OSError as error:
        raise DataError(f"the report {path} cannot be written: {error.strerror or error}") from None
