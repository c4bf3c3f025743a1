"""A collection's own calibration, which lies beside it."""

from __future__ import annotations

import logging
from pathlib import Path

from diptych.scoring.scorer import Scorer
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration
from diptych_runtime.paths import shell_word

logger = logging.getLogger(__name__)


def calibrated(scorer: Scorer, folder: Path | None) -> Scorer:
    """The scorer with the calibration in the folder of a collection over it, if there is one that was made over its
    model; another one is left out, with a warning. Raises ArtifactError for a damaged one.

    A scorer that was opened with a calibration stays as it is.
    """
    if folder is None or scorer.runtime.own is not None or (own := OwnCalibration.beside(folder)) is None:
        return scorer
    if own.fits(scorer.runtime.released):
        return scorer.calibrated(own)
    logger.warning(
        "%s was made over another model or calibration (%s %s) than this (%s %s) and is left out; "
        "make it again with `diptych calibrate --store %s`",
        *(folder / CALIBRATION, own.model, own.revision),
        *(scorer.runtime.name, scorer.runtime.revision, shell_word(folder)),
    )
    return scorer
