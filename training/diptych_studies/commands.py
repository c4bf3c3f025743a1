"""The commands of this package: `diptych study`, and further benchmarks and evaluations."""

from __future__ import annotations

from diptych.command_tree import Commands


def register(commands: Commands) -> None:
    """Add them to the command line."""
    bench = commands.group("bench", "Measure costs on this machine")  # the service's, which is there first
    bench.add("diptych_studies.benchmarks.cli:operators", "Time, memory and FLOPs of MSAC and its rivals")
    bench.add("diptych_studies.benchmarks.cli:resnets", "Attention ResNets counted beside their paper's table")
    bench.add("diptych_studies.benchmarks.cli:collection", "Fill, open and search a large collection")
    bench.add("diptych_studies.benchmarks.cli:score", "A large table of pairs, in processes and on Ray nodes")
    bench.add("diptych_studies.benchmarks.cli:dedupe", "Duplicates of known origin, beside hashes")
    bench.add(
        "diptych_studies.benchmarks.cli:copies",
        "Copies found over the milliseconds of a search, beside the usual alternatives",
    )
    bench.add("diptych_studies.benchmarks.cli:labels", "The worth of labels: what a calibration by them gains")
    evaluate = commands.group("evaluate", "Measure a model")
    evaluate.add(
        "diptych_studies.cli:calibration",
        "The calibration of probabilities on kinds of pictures that they were not fitted to",
    )
    evaluate.add(
        "diptych_studies.cli:duplicates",
        "Duplicates proposed where nothing was planted, and where copies were",
    )
    evaluate.add("diptych_studies.cli:parts", "What each part of a model carries, switched off as it runs")
    commands.add("diptych_studies.benchmarks.cli:estimate", "Estimate the cost of many pictures from those of one")
    study = commands.group("study", "Train and compare variants alike in all but one part")
    study.add("diptych_studies.cli:mixers", "Every operator in MSAC's place, on Omniglot or on photos")
    study.add(
        "diptych_studies.cli:ablation",
        "MSAC's scales, heads, H_R, segments, bias and seam, on Omniglot or on photos",
    )
    study.add("diptych_studies.cli:shapes", "The pair part's shape, accuracy beside cost, on photos")
    study.add("diptych_studies.papers.cli:networks", "MSAC-ResNet and MSAC-DenseNet as classifiers of photos")
    study.add(
        "diptych_studies.papers.cli:classifier",
        "A ResNet or DenseNet with mixers of its own at each stage, on folders of classes",
    )
    study.add("diptych_studies.papers.cli:language", "MSAC's scales in a language model of bytes or words")
    study.add("diptych_studies.papers.cli:bert", "A small BERT of hidden words and following spans")
    study.add("diptych_studies.papers.cli:xcit", "XCiT beside self-attention in XCA's place, on flowers")
    study.add(
        "diptych_studies.papers.cli:translation",
        "A Transformer and recurrent networks with attention, on reversing, sorting and number words",
    )
    study.add(
        "diptych_studies.papers.cli:questions",
        "Questions about drawn pictures, by dot and additive relevance, and blind",
    )
    study.add(
        "diptych_studies.papers.cli:sagan",
        "SAGAN's attention in a small generator and discriminator, on drawn shapes",
    )
    study.add(
        "diptych_studies.cli:marks",
        "A model on the project's own validation sets, copies and things, in one table",
    )
    study.add("diptych_studies.cli:limits", "Drawn pairs that a model errs on, and its answers to them")
    study.add(
        "diptych_studies.cli:verification",
        "The worth of a closer look at the pairs that a model takes for copies",
    )
    study.add(
        "diptych_studies.cli:numbers",
        "The numbers of a closer look that pay where they were not fitted",
    )
