"""Options of several commands, their values, and the resources that they ask for: a scorer, pictures, workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from diptych.command_tree import number, positive
from diptych.console import Console, read_bytes
from diptych.store.filters import to_sql
from diptych.store.location import Address, parse_location
from diptych.store.sqlite.schema import is_collection, missing_error
from diptych_runtime.calibration.questions import Asked
from diptych_runtime.errors import NoHomeError
from diptych_runtime.parsing import parse_json
from diptych_runtime.paths import data_folder, given_path
from diptych_runtime.session import Provider as ProviderName

if TYPE_CHECKING:
    from diptych.batch.workers.executor import Executor, WorkerPool
    from diptych.batch.workers.tasks import WorkerConfig
    from diptych.collection.collection import Collection
    from diptych.scoring.scorer import Scorer
    from diptych_runtime.runtime import Runtime

    Location = Path | Address
else:
    Location = Path  # typer takes no unions; the parser makes either

# Of glibc's malloc.h: how many heaps there are (M_ARENA_MAX), from which size on a block is a mapping of its own
# (M_MMAP_THRESHOLD), and from which on the free end of a heap is given back (M_TRIM_THRESHOLD).
_MALLOC_SETTINGS = {-8: 1, -3: 32 * 2**20, -1: 64 * 2**20}


def named_folder(text: str) -> Path:
    """A folder that has a name: none is meant by the empty one, as of a variable that is not set."""
    if not text:
        raise ValueError("expected the name of a folder, got an empty one; the one you are in is .")
    return Path(given_path(text))


def read_location(text: str) -> Location:
    """Read a folder, or an address on Milvus."""
    named_folder(text)
    return parse_location(given_path(text))


def read_folder(text: str) -> Path:
    """Read a folder, and no address on Milvus."""
    found = read_location(text)
    if isinstance(found, Address):
        raise ValueError(f"expected a folder of this machine, got {found}, which is on Milvus")
    return found


seconds = positive("a number of seconds above 0", 1e6)
probability = positive("a number above 0 and at most 1", 1.0)


def read_condition(text: str) -> dict[str, Any]:
    """Read a condition on metadata from JSON."""
    try:
        found = parse_json(text)
        to_sql(found)
    except ValueError as error:
        raise ValueError(f"expected a condition as JSON: {error}") from None
    return found


def default_store() -> Path:
    """The folder of the collection where neither --store nor DIPTYCH_STORE names one. Raises NoHomeError."""
    return data_folder(otherwise="name a collection with --store or DIPTYCH_STORE") / "diptych"


_DEFAULT_STORE = "~/.local/share/diptych"
_STORE: dict[str, Any] = {
    "parser": read_location,
    "metavar": "DIR|URL",
    "help": "the folder of the collection, or milvus://host:port/name",
    "envvar": "DIPTYCH_STORE",
}
Store = Annotated[Location, Option(**_STORE, default_factory=default_store, show_default=_DEFAULT_STORE)]
AnyStore = Annotated[Location | None, Option(**_STORE, show_default=f"{_DEFAULT_STORE}, if it is there")]
_FOLDER = {"parser": read_folder, "metavar": "DIR", "help": "the folder of the collection, on this machine"}
StoreFolder = Annotated[Path, Option(**_STORE | _FOLDER, default_factory=default_store, show_default=_DEFAULT_STORE)]
_ROOT = "a folder that holds the folders of several collections"
Collections = Annotated[
    Path | None, Option(parser=read_folder, metavar="ROOT", help=_ROOT, envvar="DIPTYCH_COLLECTIONS")
]
_MODEL: dict[str, Any] = {
    "parser": given_path,
    "metavar": "NAME|DIR",
    "help": "a bundled model, an artifact or your own calibration",
    "envvar": "DIPTYCH_MODEL",
}
Model = Annotated[str, Option(**_MODEL)]
StoredModel = Annotated[str | None, Option(**_MODEL, show_default="the collection's, or photo")]
Provider = Annotated[ProviderName, Option(help="hardware that the model runs on", envvar="DIPTYCH_PROVIDER")]
_THREADS: dict[str, Any] = {"help": "processor threads", "show_default": "all that this process may use"}
Threads = Annotated[int | None, Option(parser=number(1, 1024), metavar="N", envvar="DIPTYCH_THREADS", **_THREADS)]
_QUESTION = "is one picture made from the other (copy), or do both show the same thing?"
Question = Annotated[Asked, Option(help=_QUESTION)]
AnyQuestion = Annotated[Asked | None, Option(help=_QUESTION, show_default="thing; of two pictures both")]
Urls = Annotated[bool, Option("--urls", help="fetch pictures that are named by web address (limits: DIPTYCH_URL_*)")]
Filter = Annotated[
    dict[str, Any] | None,
    Option(
        parser=read_condition,
        metavar="JSON",
        help="""only pictures with this metadata: '{"label": "shoe", "price": {"$lt": 50}}'""",
        envvar="DIPTYCH_FILTER",
    ),
]
Engine = Annotated[Literal["local", "ray"], Option(help="where the computation runs", envvar="DIPTYCH_ENGINE")]
_ADDRESS: dict[str, Any] = {"help": "address of the Ray cluster", "show_default": "a cluster on this machine"}
ClusterAddress = Annotated[str | None, Option(metavar="HOST:PORT", envvar="DIPTYCH_ADDRESS", **_ADDRESS)]
Exclude = Annotated[
    Sequence[str],
    Option(
        metavar="GLOB",
        help="leave out files and folders of this name, or this path below the folder that is named (repeatable)",
        show_default=False,
        envvar="DIPTYCH_EXCLUDE",
    ),
]
_HIDDEN = "take in hidden files, and folders like trash cans, snapshots and thumbnails"
IncludeHidden = Annotated[bool, Option("--include-hidden", help=_HIDDEN, envvar="DIPTYCH_INCLUDE_HIDDEN")]
DryRun = Annotated[bool, Option("--dry-run", help="check everything and write nothing", envvar="DIPTYCH_DRY_RUN")]
Strict = Annotated[bool, Option("--strict", help="exit with 1 if any file was refused", envvar="DIPTYCH_STRICT")]
_CHECKSUM = "read every file, even if its size and time are unchanged"
Checksum = Annotated[bool, Option("--checksum", help=_CHECKSUM, envvar="DIPTYCH_CHECKSUM")]
KeepMetadata = Annotated[
    int,
    Option(
        parser=number(0, 36_500),
        metavar="DAYS",
        help="how long the metadata of a removed picture wait for its file to come back",
        envvar="DIPTYCH_KEEP_METADATA",
    ),
]
QueryPicture = Annotated[
    str, Argument(parser=given_path, metavar="QUERY", help="a picture file, a web address, or - for standard input")
]


def check_one_of(given: Mapping[str, object]) -> None:
    """End with a usage error where two of these options are given."""
    if len(named := [name for name, value in given.items() if value]) > 1:
        raise BadParameter(f"{named[0]} and {named[1]} do not go together; name one of them")


def named_or_default(store: Location | None, collections: Path | None) -> Location | None:
    """The collection that is named, or else the default one if it is there; None if several are named."""
    if store is None and collections is None:
        with suppress(NoHomeError):
            return default if is_collection(default := default_store()) else None
    return store


def model_of(model: str | None, store: Location | None) -> str:
    """The model that is named, or else the collection's own (`own_model`), or else *photo*. Raises ArtifactError."""
    from diptych.collection.own_model import own_model

    return model or own_model(store).name or "photo"


def open_scorer(
    model: str, provider: str, threads: int | None, *, question: str | None = None, urls: bool | None = None
) -> Scorer:
    """The scorer that the options of these names ask for; where `urls` is given, one for strangers' pictures."""
    from diptych.scoring.decode_pool import make_decoder
    from diptych.scoring.scorer import Scorer
    from diptych.signals import defer_signals
    from diptych_runtime.runtime import Runtime
    from diptych_runtime.session import import_onnxruntime

    share_one_heap()
    with defer_signals():  # its extension makes an ImportError of what interrupts its import
        import_onnxruntime()
    runtime = Runtime.open(model, provider=provider, threads=threads).asking(question)
    return Scorer(runtime, decoder=None if urls is None else make_decoder(urls, runtime.threads))


def remark_calibration(say: Callable[[str], object], runtime: Runtime) -> None:
    """Say so if the scores that are shown are no probabilities."""
    if not runtime.question_settings.is_calibrated:
        say(
            f"{runtime.name} is not calibrated: its scores order pairs but are no probabilities, and its verdicts are "
            "only levels of them; `diptych calibrate` fits both to your labels"
        )


@contextmanager
def to_add_to(store: Location, scorer: Scorer, model: str, *, dry_run: bool) -> Iterator[Collection]:
    """The collection of `--store`; for a dry run to be read only, or an empty one elsewhere where there is none.

    An empty one in a folder is from now on opened with a `model` that is named by its path, which no revision tells.
    """
    from diptych.collection.collection import Collection
    from diptych.store.sqlite.database import AdoptedModel, Store
    from diptych_runtime.models import full_name, named_model, own_calibration

    there = not dry_run or isinstance(store, Address) or is_collection(store)
    reading = dry_run and there
    with (
        nullcontext(store) if there else TemporaryDirectory() as where,
        Collection.open(where, scorer, create=not reading, read_only=reading) as collection,
    ):
        by_path = named_model(model) is None and own_calibration(model) is None
        if by_path and not reading and isinstance(collection.backend, Store) and not collection.backend.count():
            collection.backend.adopt_model(AdoptedModel.of(full_name(model), scorer.runtime.released), ())
        yield collection


def read_pictures(names: Sequence[str], *, urls: bool, damaged: bool = False) -> list[str | bytes]:
    """Pictures as the command line names them: a path as it is, or the bytes of what else it names.

    Called before a model is loaded, so that nobody waits for an error. Raises PictureError for a path that is no
    picture file, with `damaged` only for one that is no file, and RemoteError for a web address that gives none.
    """
    from diptych.pictures.sources import is_url, make_fetcher
    from diptych_runtime.decoder import check_file

    for name in names:
        if name != "-" and not is_url(name) and not (damaged and Path(name).is_file()):
            check_file(name)
    fetch = make_fetcher(urls)
    return [read_bytes("-") if name == "-" else fetch(name) if is_url(name) else name for name in names]


def check_store(store: Location) -> None:
    """Raise StoreError for a folder without a collection, before a model is loaded."""
    if isinstance(store, Path) and not is_collection(store):
        raise missing_error(store)


def check_engine(engine: str, address: str | None, workers: int | None = None) -> None:
    """End with a usage error where `--address` or `--workers` and `--engine` do not go together."""
    if address and engine != "ray":
        raise BadParameter("--address names a Ray cluster; it needs --engine ray")
    if workers and engine == "ray":
        raise BadParameter("--workers are processes here; a Ray cluster says itself what it has")


def check_output(output: str | Path, inputs: Iterable[str | Path] = (), *, picture: bool = False) -> None:
    """Refuse an output that is one of the inputs, under whatever name, part of a collection, among files that
    `dedupe` put aside, or, unless a `picture` is written, a picture that is there, with OutputError.

    Inputs that are not files, such as web addresses or -, are none that could be written over.
    """
    from diptych.collection.root import is_ours
    from diptych.errors import OutputError
    from diptych.pictures.walk import TRASH, real_path
    from diptych.store.sqlite.schema import DATABASE
    from diptych_runtime.decoder import SUFFIXES

    path = Path(output)
    if path.is_dir():
        raise OutputError(f"{path} is a folder; name a file in it")
    if TRASH in path.absolute().parts or TRASH in real_path(path).parts:
        raise OutputError(f"{path} is among what dedupe put aside; name another file")
    if is_ours(path) and (path.absolute().parent / DATABASE).exists():
        raise OutputError(f"{path} belongs to the collection {path.absolute().parent}; name another file")
    if not path.exists():
        return
    for one in map(Path, inputs):
        try:
            same = path.samefile(one)
        except OSError:
            continue
        if same:
            raise OutputError(f"{path} is {one}, which is read here; name another file, nothing was written")
    if not picture and {path.suffix.lower(), real_path(path).suffix.lower()} & set(SUFFIXES):
        raise OutputError(f"{path} is a picture; name another file, nothing was written")


@contextmanager
def open_workers(
    console: Console, engine: str, address: str | None, model: str, provider: str, threads: int | None
) -> Iterator[WorkerPool | None]:
    """The workers that `--engine` asks for; None where this process does everything. Raises BatchError."""
    if engine == "local":
        yield None
        return
    from diptych.batch.workers.executor import WorkerPool

    cluster, config = open_engine(engine, address, model, provider, threads)
    with cluster as executor:
        yield WorkerPool(executor, config, console.remark)


def open_engine(
    engine: str,
    address: str | None,
    model: str,
    provider: str,
    threads: int | None,
    *,
    workers: int | None = None,
    urls: bool = False,
) -> tuple[AbstractContextManager[Executor], WorkerConfig]:
    """The executor and the configuration that the options of these names ask for."""
    from diptych.batch.workers.executor import Serial
    from diptych.batch.workers.pool import Pool
    from diptych.batch.workers.ray import Cluster
    from diptych.batch.workers.tasks import WorkerConfig
    from diptych_runtime.models import full_name
    from diptych_runtime.session import thread_count

    if engine == "ray":
        threads = threads or 1
        executor = Cluster(address, threads=threads)
    elif workers:
        threads = max(1, (threads or thread_count()) // workers)
        executor = Pool(workers)
    else:
        executor = Serial()
    # A worker need not have this one's working directory.
    return executor, WorkerConfig(full_name(model), provider, threads, urls)


def share_one_heap() -> None:
    """Let all threads take memory from one heap of glibc's, before they begin, and let it keep what is freed.

    With a heap for each thread a service grows, and what a closer look takes and frees would be given back and taken
    anew, page by page: a fifth of a search's time. What the user has set for glibc stays as it is.
    """
    import ctypes

    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return

    with suppress(OSError, AttributeError):  # another C library
        for setting, value in _MALLOC_SETTINGS.items():
            ctypes.CDLL(None).mallopt(setting, value)
