"""The studies of the papers' networks: `diptych study networks`, `classifier`, `language`, `bert`, `xcit` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from diptych.command_tree import Json, Quiet, amount
from diptych.console import Console
from diptych_studies.options import RUNS, Out, Processes, Seeds, Steps

BEST_OF = "learning rates; a network stands with the one that cost it least in training"


def language(
    text: Annotated[
        Path | None,
        Option(metavar="FILE", help="a text or a folder", show_default="Python's docstrings"),
    ] = None,
    steps: Steps = 1200,
    objective: Annotated[Literal["causal", "masked"], Option(help="what the model learns to tell")] = "causal",
    rates: Annotated[
        Sequence[float], Option("--rates", parser=amount, metavar="R,R", help=BEST_OF, show_default="0.003, 0.006")
    ] = (3e-3, 6e-3),
    words: Annotated[
        int,
        Option(metavar="N", help="read the N most frequent words; 0: read bytes"),
    ] = 0,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """MSAC's scales in a language model of bytes or words."""
    from diptych_studies.papers.scales import language_text, study_language

    console = Console(as_json, quiet)
    result = study_language(
        out,
        text,
        steps=steps,
        seeds=seeds,
        objective=objective,
        rates=rates,
        words=words,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, language_text(result))
    return 0


def bert(
    text: Annotated[
        Path | None,
        Option(metavar="FILE", help="a text or a folder", show_default="Python's docstrings"),
    ] = None,
    steps: Steps = 1000,
    rate: Annotated[float, Option(parser=amount, metavar="R", help="learning rate")] = 2e-3,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A small BERT of hidden words and following spans.

    With MSAC's windows or single words, and with or without segment embeddings.
    """
    from diptych_studies.papers.bert import bert_text, study_bert

    console = Console(as_json, quiet)
    rows = study_bert(
        out,
        text,
        steps=steps,
        rate=rate,
        seeds=seeds,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit({"rows": rows}, bert_text(rows))
    return 0


def networks(
    archive: Annotated[
        Literal["flowers", "grocery"], Option("--on", help="the photos that are classified")
    ] = "flowers",
    widths: Annotated[
        bool,
        Option("--widths", help="sweep the width of ResNets with convolutions and with stand-alone attention instead"),
    ] = False,
    rates: Annotated[
        Sequence[float], Option("--rates", parser=amount, metavar="R,R", help=BEST_OF, show_default="0.002, 0.004")
    ] = (2e-3, 4e-3),
    steps: Steps = 600,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """MSAC-ResNet and MSAC-DenseNet as classifiers of photos.

    Each beside its convolutional twin of equal FLOPs.
    """
    from diptych_studies.papers.networks import networks_text, study_networks
    from diptych_training.data.archives import data_folder

    console = Console(as_json, quiet)
    rows = study_networks(
        out,
        data_folder(),
        archive=archive,
        sweep=widths,
        steps=steps,
        seeds=seeds,
        rates=rates,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit({"rows": rows}, networks_text(rows))
    return 0


def classifier(
    recipe: Annotated[Path, Argument(metavar="RUN.toml", help="the recipe, such as training/recipes/classifier.toml")],
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="DIR", help="directory of the run", show_default="runs/NAME"),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="go on from the run's last saved state")] = False,
    changes: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="change the recipe (repeatable)")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A ResNet or DenseNet with mixers of its own at each stage, on folders of classes."""
    from diptych_studies.classifiers import recipe_from, report, train
    from diptych_training.recipe import build_recipe

    console, read = Console(as_json, quiet), build_recipe(recipe, changes or [], recipe_from)
    directory = out or Path("runs") / read.name
    console.emit(*report(train(read, directory, resume=resume, quiet=console.is_silent), directory))
    return 0


def xcit(
    steps: Steps = 600,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """XCiT beside self-attention in XCA's place, on flowers.

    Beside it stands what both attentions cost as tokens grow in number.
    """
    from diptych_studies.papers.xcit import study_xcit, xcit_text
    from diptych_training.data.archives import data_folder

    console = Console(as_json, quiet)
    result = study_xcit(
        out,
        data_folder(),
        steps=steps,
        seeds=seeds,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, xcit_text(result))
    return 0


def translation(
    steps: Steps = 600,
    rate: Annotated[float, Option(parser=amount, metavar="R", help="learning rate")] = 5e-3,
    task: Annotated[Literal["all", "reverse", "sort", "numbers"], Option(help="what they learn")] = "all",
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw what each network looks at, as .png, .svg or .pdf"),
    ] = None,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """A Transformer and recurrent networks with attention, on reversing, sorting and number words."""
    from diptych_studies.learning.translation import TASKS
    from diptych_studies.papers.translation import draw_alignments, study_translation, translation_text
    from diptych_studies.plot_files import check_plot

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    rows = study_translation(
        out,
        steps=steps,
        rate=rate,
        seeds=seeds,
        tasks=tuple(TASKS) if task == "all" else (task,),
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit({"rows": rows}, translation_text(rows))
    if plot:
        draw_alignments(rows, plot)
        console.remark(f"plot: {plot}")
    return 0


def questions(
    steps: Steps = 4000,
    rate: Annotated[float, Option(parser=amount, metavar="R", help="learning rate")] = 2e-3,
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw what each word looks at, as .png, .svg or .pdf"),
    ] = None,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Questions about drawn pictures, by dot and additive relevance, and blind."""
    from diptych_studies.papers.questions import draw_relevance, questions_text, study_questions
    from diptych_studies.plot_files import check_plot

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    rows = study_questions(
        out,
        steps=steps,
        rate=rate,
        seeds=seeds,
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit({"rows": rows}, questions_text(rows))
    if plot:
        draw_relevance(rows, plot)
        console.remark(f"plot: {plot}")
    return 0


def sagan(
    steps: Steps = 2000,
    pixels: Annotated[Literal["32", "64", "128"], Option(help="the side of the pictures")] = "32",
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="draw distances, gammas and pictures made, as .png, .svg or .pdf"),
    ] = None,
    out: Out = RUNS,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """SAGAN's attention in a small generator and discriminator, on drawn shapes."""
    from diptych_studies.networks.sagan import SaganConfig
    from diptych_studies.papers.sagan import draw_sagan, sagan_text, study_sagan
    from diptych_studies.plot_files import check_plot

    console = Console(as_json, quiet)
    if plot:
        check_plot(plot)
    result = study_sagan(
        out,
        steps=steps,
        seeds=seeds,
        # The grid in the middle attends to itself; the smallest has 128 channels, whatever the side.
        shape=SaganConfig(int(pixels), width=512 // int(pixels), attend=int(pixels) // 4),
        processes=processes,
        finished=lambda name: console.remark(f"finished {name}"),
    )
    console.emit(result, sagan_text(result))
    if plot:
        draw_sagan(result, out, plot)
        console.remark(f"plot: {plot}")
    return 0
