"""Every command of Diptych with what it reads, what it writes, and a place in its middle."""
# ruff: noqa: E501 - a table

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from archives import write_archives, write_omniglot
from small import SMALL

from diptych.pictures.content import picture_id
from diptych.pictures.walk import TRASH

MODEL = "diptych_runtime.runtime:Runtime.open"
MEASURED = "diptych_training.evaluation.open_model:open_model"


@dataclass(frozen=True)
class Row:
    """A command: `{in}` is a folder of inputs, `{out}` the one it writes to, with a collection in it if it needs one.

    `reads` vanishes; `hook` is called in its middle; `writes` are the names that it makes in `{out}`. What only reads a
    collection has none, and neither have studies, which write after minutes of training. `reports` is what it says of
    single pictures in place of an error. `again` is False where going on to the end takes minutes.
    """

    words: str
    hook: str
    reads: str | None = "{in}/photos"
    writes: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    store: bool = False
    again: bool = True
    model: bool = True
    threads: bool = True

    @property
    def command(self) -> str:
        """The words that the parser knows."""
        return self.words.partition(" {")[0].partition(" -")[0]

    def line(self, inputs: str, output: str) -> list[str]:
        """The words with folders put in."""
        model = ["--model", "{in}/model", *(["--threads", "1"] if self.threads else [])]
        words = self.words.split() + (model if self.model else [])
        return [word.replace("{in}", inputs).replace("{out}", output) for word in words]


_COLLECTION: dict[str, Any] = {"store": True, "model": False, "reads": "{out}/store"}
_COMPUTED: dict[str, Any] = {"reads": "{in}/model"}

ROWS = (
    Row("serve --create --store {out}/new --port 0", "diptych.http.server:run", "{in}/model", ("new",), again=False),
    Row("key --read-only alice", "diptych.http.middleware.auth:new_key", None, model=False),
    Row("index add {in}/photos --store {out}/new", "diptych.collection.ingest:make_features", writes=("new",)),
    Row("index add {in}/photos --store {out}/new --engine ray", "diptych.batch.workers.ray:Cluster.run", writes=("new",), reports=("does not exist",)),
    Row("index sync {in}/photos --store {out}/new", "diptych.collection.ingest:make_features", writes=("new",)),
    Row("index sync {in}/photos --store {out}/store", "diptych.store.sqlite.database:Store.relocate", store=True, writes=("store",)),
    Row("index remove {in}/photos/0.jpg --store {out}/store", "diptych.store.sqlite.database:Store.remove", writes=("store",), **_COLLECTION),
    Row("index list --store {out}/store", "diptych.store.sqlite.database:Store.pages", **_COLLECTION),
    Row("index stats --store {out}/store", "diptych.store.sqlite.database:Store.stats", **_COLLECTION),
    Row("index verify --store {out}/store", "diptych.store.sqlite.backend:verify_store", **_COLLECTION),
    Row("index export --store {out}/store -o {out}/list.jsonl", "diptych.store.sqlite.database:Store.pages", writes=("list.jsonl",), **_COLLECTION),
    Row("index backup --store {out}/store {out}/copy", "diptych.store.sqlite.backup:back_up_collection", writes=("copy",), **_COLLECTION),
    Row("index restore {in}/copy --store {out}/new", "diptych.store.sqlite.backup:restore_collection", "{in}/copy", ("new",), model=False, threads=False),
    Row("index rebuild --store {out}/store --all", "diptych.collection.rebuild:make_features", writes=("store",), store=True),
    Row("search {in}/photos/0.jpg --store {out}/store", "diptych.scoring.scorer:Scorer.encode_pixels", store=True),
    Row("label --store {out}/store --export {out}/labels.csv", "diptych.labelling.table:write_labels", writes=("labels.csv",), **_COLLECTION),
    Row("calibrate --labels {in}/judged.csv -o {out}/own.json --force", "diptych.labelling.calibrate:observe_pairs", "{in}/judged.csv", ("own.json",)),
    Row("score {in}/photos/0.jpg {in}/photos/1.jpg", "diptych.scoring.scorer:Scorer.all_logits"),
    Row("score {in}/pairs.csv -o {out}/scores.csv --resume", "diptych.batch.workers.tasks:_OpenJob.score_pairs", "{in}/pairs.csv", writes=("scores.csv",)),
    Row("score {in}/pairs.csv -o {out}/scores.csv --resume --workers 2", "diptych.batch.workers.pool:Pool.run", "{in}/pairs.csv", writes=("scores.csv",)),
    Row("score {in}/pairs.csv -o {out}/scores.csv --resume --engine ray", "diptych.batch.workers.ray:Cluster.run", "{in}/pairs.csv", writes=("scores.csv",)),
    Row("rerank {in}/photos/0.jpg {in}/photos/1.jpg", "diptych.scoring.scorer:Scorer.all_logits"),
    Row("explain {in}/photos/0.jpg {in}/photos/1.jpg -o {out}/why.png", "diptych.scoring.explanation:draw_overlay", writes=("why.png",)),
    Row("dedupe {in}/photos --store {out}/kept --report {out}/page.html -o {out}/groups.csv", "diptych.collection.ingest:make_features", writes=("page.html", "groups.csv", "kept")),
    Row("dedupe {in}/photos --store {out}/kept -o {out}/groups.csv --engine ray", "diptych.batch.workers.ray:Cluster.run", writes=("groups.csv", "kept")),
    Row("dedupe {in}/photos --method phash --store {out}/kept --report {out}/page.html -o {out}/groups.csv", "diptych.dedupe.hashes:perceptual_hashes", writes=("page.html", "groups.csv", "kept"), model=False),
    Row("dedupe {in}/photos --store {in}/kept --move-to {out}/moved", "diptych.dedupe.actions.plan:carry_out", writes=("moved",)),
    Row("dedupe {in}/photos --store {in}/kept --delete", "diptych.dedupe.actions.plan:carry_out"),
    Row("dedupe {in}/photos --store {in}/kept --reference {in}/classes --action hardlink", "diptych.dedupe.actions.plan:move_and_link"),
    Row("dedupe {in} --undo {in}/moved.jsonl", "diptych.dedupe.actions.undo_log:move_file", "{in}/moved.jsonl"),
    Row("dedupe {out} --undo {in}/elsewhere.jsonl", "diptych.dedupe.actions.undo_log:move_file", "{in}/elsewhere.jsonl", ("9.jpg",), ("cannot be put back",)),
    Row("dedupe {in} --empty {in}/trash.jsonl", "diptych.dedupe.actions.undo_log:_remove_empty_folders", "{in}/trash.jsonl"),
    Row("doctor --store {out}/store", "diptych.cli.options:open_scorer", store=True, reads=None),
    Row("bench --rounds 3", MODEL, again=False, **_COMPUTED),
    Row("bench collection --count 100 --folder {out}", "diptych_studies.benchmarks.collection:draw_cuts", writes=("bench",), again=False, **_COMPUTED, threads=False),
    Row("bench copies --references {in}/photos --queries {in}/photos --truth {in}/truth.csv --peer cnn --folder {out}", "diptych_studies.benchmarks.copies:_evaluate", "{in}/photos", writes=("bench",), again=False),
    Row("bench dedupe {in}/photos --count 12 --folder {out}", "diptych_studies.benchmarks.dedupe:_make", writes=("bench",), again=False, threads=False),
    Row("bench labels {in}/photos --classes {in}/classes.csv --folder {out}", "diptych_studies.benchmarks.labels:halves", "{in}/classes.csv", writes=("bench",), again=False),
    Row("models list", "diptych.cli.models:_describe_model", None, model=False, threads=False),
    Row("models use {in}/model --store {out}/store", "diptych.store.sqlite.database:Store.adopt_model", "{in}/model", ("store",), store=True, model=False),
    Row("bench score --pairs 1000 --pictures 4 --folder {out}", "diptych_studies.benchmarks.tables:draw", writes=("bench",), again=False, **_COMPUTED, threads=False),
    Row("bench store --store {out}/new --count 200", "diptych.bench.store:measure_store", writes=("new",), **_COMPUTED, threads=False),
    Row("estimate --queries 1 1000", "diptych_studies.benchmarks.estimate:measure_figures", again=False, **_COMPUTED),
    Row("bench operators --width 8 --tokens 8 --windows 1 --repeats 1 --mixers convolution --plot {out}/costs.svg", "diptych_studies.benchmarks.operators:bench_operators", None, ("costs.svg",), model=False),
    Row("bench resnets", "diptych_studies.benchmarks.resnets:compare_with_paper", None, model=False),
    Row("demo {out}/demo --count 6", "diptych.bench.demo.collection:_draw_picture", None, ("demo",), model=False),
    Row("export -o {out}/artifact --no-check photo-small", "diptych_export.artifact:export_checkpoint", None, ("artifact",), model=False, again=False),
    Row("study mixers --steps 1 --episodes 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.pairs:study_pairs", "{in}/omniglot.zip", model=False, again=False),
    Row("study ablation --steps 1 --episodes 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.pairs:study_pairs", "{in}/omniglot.zip", model=False, again=False),
    Row("study shapes --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.shapes:study_shapes", "{in}/clothing.zip", model=False, again=False),
    Row("study xcit --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.papers.xcit:study_xcit", "{in}/flowers.zip", model=False, again=False),
    Row("study translation --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.papers.translation:study_translation", None, model=False, again=False),
    Row("study networks --steps 1 --seeds 1 --rates 0.001 --processes 0 --out {out}/study", "diptych_studies.papers.networks:study_networks", "{in}/flowers.zip", model=False, again=False),
    Row("study classifier {in}/classifier.toml -o {out}/run", "diptych_studies.classifiers:train", "{in}/classes", model=False, again=False),
    Row("study bert --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.papers.bert:study_bert", None, model=False, again=False),
    Row("study questions --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.papers.questions:study_questions", None, model=False, again=False),
    Row("study sagan --steps 1 --seeds 1 --processes 0 --out {out}/study", "diptych_studies.papers.sagan:study_sagan", None, model=False, again=False),
    Row("study marks --only sides --out {out}/marks", "diptych_studies.mark_sets:read_photos", "{in}/goods.zip", again=False, threads=False),
    Row("study limits --plot {out}/limits.png", "diptych_studies.limits:draw_examples", writes=("limits.png",), **_COMPUTED, threads=False),
    Row("evaluate duplicates --only clothing --out {out}/kinds", "diptych_studies.kinds.planted:read_photos", "{in}/clothing.zip", again=False, threads=False),
    Row("evaluate parts --only clothing --model photo-small --out {out}/kinds", "diptych_studies.kinds.planted:read_photos", "{in}/clothing.zip", model=False, again=False, threads=False),
    Row("study verification --only clothing,goods --out {out}/kinds", "diptych_studies.kinds.planted:read_photos", "{in}/goods.zip", again=False, threads=False),
    Row("study numbers --only clothing,goods --out {out}/kinds", "diptych_studies.kinds.planted:read_photos", "{in}/goods.zip", again=False, threads=False),
    Row("study language --steps 1 --seeds 1 --processes 0 --text {in}/text.txt --out {out}/study", "diptych_studies.papers.scales:study_language", "{in}/text.txt", model=False, again=False),
    Row("evaluate oneshot {in}/runs", MEASURED, "{in}/runs", threads=False),
    Row("evaluate episodes {in}/characters --split background --episodes 1 --ways 2", MEASURED, "{in}/characters", threads=False),
    Row("evaluate retrieval --queries {in}/classes.csv --gallery {in}/classes.csv --root {in}/photos", MEASURED, threads=False),
    Row("evaluate copies --references {in}/photos --queries {in}/photos --truth {in}/truth.csv", MEASURED, threads=False),
    Row("evaluate pairs {in}/labelled.csv", MEASURED, "{in}/labelled.csv", threads=False),
    Row("evaluate calibration --only clothing,goods --out {out}/kinds --plot {out}/plot.png", "diptych_studies.kinds.planted:read_photos", "{in}/goods.zip", ("plot.png",), again=False, threads=False),
    Row("train {in}/run.toml -o {out}/run", "diptych_training.learning.run:train", "{in}/classes", ("run",), model=False),
    Row("edit {in}/photos -o {out}/queries --count 3", "diptych_training.data.edits:edit_picture", writes=("queries",), model=False),
    Row("unpack -o {out}/flowers flowers", "diptych_training.data.archives:list_photos", "{in}/flowers.zip", ("flowers",), model=False),
)  # fmt: skip


def _id_of(file: Path) -> str:
    return picture_id(hashlib.sha256(file.read_bytes()).hexdigest())


def write_inputs(folder: Path, model: Path, photo_bytes: Callable[..., bytes]) -> None:
    """Write all that any row reads into a new folder."""
    for place, seeds in (("photos", range(6)), ("classes/a", range(10, 20)), ("classes/b", range(20, 30))):
        (folder / place).mkdir(parents=True)
        for seed in seeds:
            (folder / place / f"{seed}.jpg").write_bytes(photo_bytes(seed))
    shutil.copy(folder / "photos/0.jpg", folder / "photos/copy.jpg")
    shutil.copytree(model, folder / "model")
    for name, act, away, source, seed in (
        ("moved.jsonl", "move", "away", "photos/7.jpg", 7),
        ("elsewhere.jsonl", "move", "elsewhere", "../out/9.jpg", 9),
        ("trash.jsonl", "delete", TRASH, "photos/8.jpg", 8),
    ):
        (folder / away).mkdir()
        target = Path(away, Path(source).name)
        (folder / target).write_bytes(photo_bytes(seed))
        lines = (
            {"journal": 2, "act": act, "folders": [str(folder / away)]},
            {"source": os.path.normpath(folder / source), "target": str(folder / target), "id": _id_of(folder / target)}
            | {"keeper": str(folder / "photos/1.jpg"), "keeper_id": _id_of(folder / "photos/1.jpg")},
        )
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_archives(folder, photo_bytes)
    write_omniglot(folder)
    with zipfile.ZipFile(folder / "omniglot.zip") as archive:
        archive.extractall(folder / "characters")
    for run in ("run01", "run02"):
        for kind, name in (("training", "class"), ("test", "item")):
            (folder / "runs" / run / kind).mkdir(parents=True)
            for place in range(1, 5):
                path = folder / "runs" / run / kind / f"{name}{place:02d}.png"
                path.write_bytes(photo_bytes(100 + place, (40, 40), "PNG"))
        lines = [f"{run}/test/item{n:02d}.png {run}/training/class{n:02d}.png" for n in range(1, 5)]
        (folder / "runs" / run / "class_labels.txt").write_text("\n".join(lines))
    pairs = ["photos/0.jpg,photos/1.jpg", "photos/0.jpg,photos/copy.jpg", "photos/2.jpg,photos/1.jpg"]
    (folder / "pairs.csv").write_text("\n".join(["image_a,image_b", *pairs]))
    labelled = [f"{pair},{int('copy' in pair)}" for pair in pairs]
    (folder / "labelled.csv").write_text("\n".join(["image_a,image_b,label", *labelled]))
    judged = [
        f"classes/a/{n}.jpg,classes/{to}/{m}.jpg,{answer}"
        for n in range(10, 16)
        for to, m, answer in (
            ("a", n + 2, "same"),
            ("a", n + 3, "same"),
            ("b", n + 10, "different"),
            ("b", n + 11, "different"),
        )
    ]
    (folder / "judged.csv").write_text("\n".join(["image_a,image_b,answer", *judged]))
    (folder / "truth.csv").write_text("query,reference\n0.jpg,copy.jpg\n1.jpg,1.jpg\n2.jpg,2.jpg")
    (folder / "classes.csv").write_text("path,class\n" + "\n".join(f"{n}.jpg,{'ac'[n % 2]}" for n in range(6)))
    (folder / "text.txt").write_text("".join(f"line {n} of a text\n" for n in range(5000)))
    stages = [{"pixels": 32, "steps": 2, "negatives": 2, "easy": 1}]
    recipe = SMALL | {"tasks": [{"kind": "classes", "pictures": "classes", "queries": 4}], "stages": stages}
    (folder / "run.toml").write_text(tomli_w.dumps(recipe))
    classifier = {"classifier": {"pictures": "classes"}, "learning": {"steps": 1}}
    (folder / "classifier.toml").write_text(tomli_w.dumps(classifier))
