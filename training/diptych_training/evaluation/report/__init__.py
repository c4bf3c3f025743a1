"""The report of an evaluation: one HTML file that needs nothing else."""

from pathlib import Path

from diptych_export.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.evidence import Evidence
from diptych_training.evaluation.report.judged import pair_figures
from diptych_training.evaluation.report.markup import document
from diptych_training.evaluation.report.page import page


def write_report(evidence: Evidence, runtime: Runtime, path: Path) -> None:
    """Write what was measured as one HTML file, whole or not at all: figures, curves, calibration, hardest pairs.

    The file fetches nothing and runs nothing. `runtime` is the model that was measured; where its artifact can explain,
    the pairs carry the strongest attention across the seam. Raises `DataError` where the file cannot be written.
    """
    missed, mistaken = (pair_figures(pairs, runtime) for pairs in (evidence.missed, evidence.mistaken))
    text = document(page(evidence, missed, mistaken))
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # File names need not be UTF-8; what is not stands as a number.
        temporary.write_text(text, "utf-8", "xmlcharrefreplace")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(f"the report {path} cannot be written: {error.strerror or error}") from None
