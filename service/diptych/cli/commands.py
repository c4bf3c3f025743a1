"""The commands of the service."""

from __future__ import annotations

from diptych.command_tree import Commands


def register(commands: Commands) -> None:
    """Add the commands of the service."""
    commands.add("diptych.cli.serve:serve", "Serve scores, searches and the web page over HTTP")
    commands.add("diptych.cli.serve:key", "Make a key for the HTTP service")
    index = commands.group("index", "Fill and look after a collection")
    index.add("diptych.cli.index.add:add", "Add picture files and folders")
    index.add("diptych.cli.index.sync:sync", "Keep a collection in step with folders")
    index.add("diptych.cli.index.contents:remove", "Forget pictures; their files are left alone")
    index.add("diptych.cli.index.contents:list", "List the pictures of a collection")
    index.add("diptych.cli.index.contents:stats", "Show the pictures, model, index and size of a collection")
    index.add("diptych.cli.index.contents:verify", "Check every picture, the files they were made of, and the index")
    index.add("diptych.cli.index.contents:export", "Write a line of JSON for every picture")
    index.add("diptych.cli.index.upkeep:backup", "Copy a collection while it is in use")
    index.add("diptych.cli.index.upkeep:restore", "Give a collection the state of a backup")
    index.add("diptych.cli.index.upkeep:rebuild", "Embed pictures for another model and write the index")
    commands.add("diptych.cli.search:search", "Find a picture in a collection")
    commands.add("diptych.cli.score:score", "Score one pair, or all pairs of a table")
    commands.add("diptych.cli.search:rerank", "Order pictures by their likeness to one")
    commands.add("diptych.cli.search:explain", "Show where two pictures match")
    commands.add("diptych.cli.label:label", "Write the labels of a collection to a table, or import some")
    commands.add("diptych.cli.label:calibrate", "Fit probabilities and verdicts to your own labels")
    models = commands.group("models", "See the models, and give a collection another one")
    models.add("diptych.cli.models:list", "List the bundled models and your own")
    models.add("diptych.cli.models:use", "Give a collection another model")
    commands.add("diptych.cli.dedupe:dedupe", "Find groups of pictures that show the same photo")
    commands.add(
        "diptych.cli.doctor:doctor", "Check this installation: versions, providers, models, speed and collections"
    )
    bench = commands.group("bench", "Measure costs on this machine", alone="diptych.cli.bench:bench")
    bench.add("diptych.cli.bench:store", "A folder or a Milvus server, with drawn features of the model's sizes")
    commands.add("diptych.cli.bench:demo", "Draw a demonstration collection to index and search")
