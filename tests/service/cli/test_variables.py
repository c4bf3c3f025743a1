"""The variables of the environment that stand for options of `serve` and `index`."""

from pathlib import Path

import pytest
from typed import command_names, options, parsed

from diptych.http.settings import Settings
from diptych.pictures.settings import ELSEWHERE, PREFIX

DOCUMENT = Path(__file__).parents[3] / "docs" / "serving.md"
COMMANDS = [name for name in command_names() if name == "serve" or name.startswith("index ")]
# A yes to a loss is given where the loss is, never once and for all.
CONSENT = {"--replace", "--allow-removal", "--drop-missing"}


def spelling(option) -> str:
    return max(option.opts, key=len)


def variables() -> dict[str, tuple[str, str]]:
    """The default of each variable, and the commands and the option that it stands for, with its help."""
    found: dict[str, tuple[str, str, list[str]]] = {}
    for command in COMMANDS:
        for option in options(command):
            if option.envvar is not None:
                default = option.show_default if isinstance(option.show_default, str) else option.default
                shown = "" if default in (None, False, ()) else str(default).removesuffix(", if it is there")
                entry = found.setdefault(str(option.envvar), (shown, option.help or "", []))
                entry[2].append(f"{command} {spelling(option)}")
    return {
        name: (default, f"`{uses[0].split()[-1]}`: {help}" if len(uses) > 1 else f"`{uses[0]}`: {help}")
        for name, (default, help, uses) in found.items()
    }


def test_every_option_of_serve_and_index_but_consent_to_a_loss_is_a_variable_of_its_name():
    seen = set()
    assert len(COMMANDS) > 9
    for command in COMMANDS:
        for option in options(command):
            name = spelling(option)
            seen.add(name)
            wanted = None if name in CONSENT else PREFIX + name.removeprefix("--").replace("-", "_").upper()
            assert option.envvar == wanted, f"{command} {name}"
    assert seen > CONSENT


def test_a_service_takes_each_of_them_for_known_and_none_is_also_a_setting():
    names = {name.removeprefix(PREFIX) for name in variables()}
    assert names - ELSEWHERE == set()
    assert not {name.lower() for name in names} & Settings.model_fields.keys()
    assert ELSEWHERE - names == {"KERNEL", "PAIR_PRECISION", "GPU_MEMORY", "DATA", "MODELS", "MILVUS_TOKEN"}


def test_each_is_in_the_table_of_the_documents_as_the_code_has_it():
    told = [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| `{PREFIX}")]
    wanted = [f"| `{name}` | {default} | {text} |" for name, (default, text) in variables().items()]
    settings = [f"| `{PREFIX}{name.upper()}` |" for name in Settings.model_fields]
    assert [line for line in told if not line.startswith(tuple(settings))] == wanted, "\n" + "\n".join(wanted)


@pytest.mark.parametrize(
    ("variable", "value", "words", "name", "read"),
    [
        ("DIPTYCH_STORE", "shoes", "index stats", "store", Path("shoes")),
        ("DIPTYCH_PORT", "9000", "serve", "port", 9000),
        ("DIPTYCH_SYNC", "/a:/b c", "serve", "sync", (Path("/a"), Path("/b c"))),
        ("DIPTYCH_SYNC_EVERY", "5", "serve", "sync_every", 5.0),
        ("DIPTYCH_EXCLUDE", "raw/,*.tmp", "index add photos", "exclude", ("raw/", "*.tmp")),
        ("DIPTYCH_INCLUDE_HIDDEN", "1", "serve", "include_hidden", True),
        ("DIPTYCH_CREATE", "0", "serve", "create", False),
        ("DIPTYCH_CREATE", "Yes", "serve", "create", True),
        ("DIPTYCH_THREADS", "", "search a.jpg", "threads", None),
        ("DIPTYCH_MODEL", "photo-small", "search a.jpg", "model", "photo-small"),
        ("DIPTYCH_FILTER", '{"a": 1}', "index export", "filter", {"a": 1}),
    ],
)
def test_a_variable_is_read_as_the_option_is(variable, value, words, name, read, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert parsed(*words.split())[name] == read


def test_the_command_line_wins_over_the_environment_whose_wrong_values_are_refused(diptych, monkeypatch):
    monkeypatch.setenv("DIPTYCH_STORE", "shoes")
    assert parsed("index", "stats", "--store", "bags")["store"] == Path("bags")
    monkeypatch.setenv("DIPTYCH_CREATE", "perhaps")
    refused = diptych("serve")
    assert refused.code == 2
    assert "(env var: 'DIPTYCH_CREATE'): expected 1, true, yes or on, or 0" in refused.err
