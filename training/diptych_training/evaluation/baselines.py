"""Controls: what people use today, on the same pictures as the models, none of it trained.

`control("phash")` gives one; each file here holds a kind of them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from diptych_runtime.decoder import PictureSource
from diptych_training.errors import DataError
from diptych_training.evaluation.baselines.hausdorff import ModifiedHausdorff
from diptych_training.evaluation.baselines.histogram import ColourHistogram
from diptych_training.evaluation.baselines.local_features import orb, sift
from diptych_training.evaluation.baselines.phash import PerceptualHash
from diptych_training.evaluation.baselines.pixels import BlurredPixels


class Control(Protocol):
    """Describes each picture once, then scores pairs of descriptions.

    `verifies` is True where a pair is too dear for a whole gallery, so that only a first stage's candidates are scored.
    """

    name: str
    verifies: bool

    def describe(self, picture: PictureSource, /) -> Any:
        """Features of one picture; raises PictureError where it cannot be read."""
        ...

    def scores(self, query: Any, references: Sequence[Any], /) -> np.ndarray:
        """The similarity of the query to each reference: float64 (R,), finite, larger is more alike."""
        ...


CONTROLS: dict[str, Callable[[], Control]] = {
    "phash": PerceptualHash,
    "histogram": ColourHistogram,
    "pixels": BlurredPixels,
    "sift": sift,
    "orb": orb,
    "mhd": ModifiedHausdorff,
}


def control(name: str) -> Control:
    """The control of this name; raises `DataError` where it is not known or lacks its library."""
    if name not in CONTROLS:
        raise DataError(f"no control is called {name!r}; known are {', '.join(CONTROLS)}")
    try:
        return CONTROLS[name]()
    except ImportError as error:
        raise DataError(f"the control {name} needs `pip install 'diptych[evaluate]'`: {error}") from None
