"""The options that several studies share."""

from pathlib import Path
from typing import Annotated

from typer import Option

RUNS = Path("runs/study")
Out = Annotated[Path, Option("--out", "-o", metavar="DIR", help="where runs are kept")]
Seeds = Annotated[int, Option("--seeds", metavar="N", help="runs of each variant")]
Processes = Annotated[
    int | None,
    Option(
        "--processes",
        metavar="N",
        help="at a time, one thread each; 0: in this one",
        show_default="one a core",
    ),
]
Steps = Annotated[int, Option("--steps", metavar="N", help="training steps of each run")]
