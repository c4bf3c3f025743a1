"""Settings from the environment and from a file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from diptych.errors import SettingsError
from diptych.http.middleware.auth import key_line, new_key
from diptych.http.settings import Settings
from diptych.pictures.settings import ELSEWHERE

DOCUMENT = Path(__file__).parents[3] / "docs" / "serving.md"
OTHER = {  # two values that are not the default
    "keys": [key_line(new_key(name, "read")[1]) for name in ("alice", "bob")],
    "log": ["json", "text"],
    "hosts": ["pictures.example.org photos.example.org", "example.com"],
    "url_hosts": ["example.org .example.net", "example.com"],
    **dict.fromkeys(("urls", "url_private"), ("true", "false")),
}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_read_from_the_environment_and_from_a_file_and_the_environment_wins(
    name, tmp_path, monkeypatch
):
    one, other = OTHER.get(name, ("7", "9"))
    default = getattr(Settings(), name)
    monkeypatch.setenv(f"DIPTYCH_{name.upper()}", one)
    from_environment = getattr(Settings.load(), name)
    assert from_environment != default
    monkeypatch.delenv(f"DIPTYCH_{name.upper()}")
    file = tmp_path / "settings.toml"
    file.write_text(f"{name} = {one}" if one.isdecimal() else f'{name} = "{one}"')
    assert getattr(Settings.load(file), name) == from_environment
    monkeypatch.setenv("DIPTYCH_CONFIG", str(file))
    assert getattr(Settings.load(), name) == from_environment
    monkeypatch.setenv(f"DIPTYCH_{name.upper()}", other)
    assert getattr(Settings.load(), name) != from_environment


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_documented_with_its_default(name):
    field = Settings.model_fields[name]
    (line,) = [line for line in DOCUMENT.read_text().splitlines() if f"| `DIPTYCH_{name.upper()}`" in line]
    default = "" if field.default == () else f"{field.default:g}" if isinstance(field.default, float) else field.default
    assert f"` | {default} | " in line
    assert field.description
    assert field.description in line


@pytest.mark.parametrize("wrong", ["inf", "-inf", "nan", "-1", "1e308", "9" * 30, "many"])
@pytest.mark.parametrize(
    "name", [name for name, field in Settings.model_fields.items() if field.annotation in (int, float)]
)
def test_a_number_out_of_its_range_is_refused_with_the_range_and_what_came(name, wrong, tmp_path, monkeypatch):
    said = rf"{name} \(DIPTYCH_{name.upper()}\): .*, got"
    monkeypatch.setenv(f"DIPTYCH_{name.upper()}", wrong)
    with pytest.raises(SettingsError, match=rf"{said} .{wrong}."):
        Settings.load()
    monkeypatch.delenv(f"DIPTYCH_{name.upper()}")
    (tmp_path / "settings.toml").write_text(f"{name} = {wrong if wrong != 'many' else '[1]'}")
    with pytest.raises(SettingsError, match=said):
        Settings.load(tmp_path / "settings.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers = 0", r"workers \(DIPTYCH_WORKERS\): Input should be greater than 0, got 0"),
        ('seconds = "long"', r"seconds \(DIPTYCH_SECONDS\): .*got 'long'"),
        ('log = "xml"', r"log \(DIPTYCH_LOG\): Input should be 'text' or 'json'"),
        *(
            (f'hosts = "{wrong}"', r"hosts \(DIPTYCH_HOSTS\): .*expected names like pictures.example.org, with spaces")
            for wrong in ("a.example,b.example", "https://a.example", "a.example:80", ".example.org", "*.example.org")
        ),
        ("worker = 3", r"'worker' in .* is no setting; did you mean workers\?"),
        ("zzz = 3", r"'zzz' in .* is no setting; known are bodies_bytes"),
        ("workers = ", "cannot be read"),
        (f"workers = {'[' * 5000}{']' * 5000}", "cannot be read: .* 128 levels"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_what_is_wrong(text, message, tmp_path):
    (tmp_path / "settings.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        Settings.load(tmp_path / "settings.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.load(tmp_path / "nowhere.toml")


def test_a_misspelt_variable_does_not_leave_the_service_open(monkeypatch):
    monkeypatch.setenv("DIPTYCH_KEY", "alice:admin:" + "0" * 64)
    with pytest.raises(SettingsError, match="DIPTYCH_KEY is no setting; did you mean DIPTYCH_KEYS"):
        Settings.load()


def test_what_is_no_key_is_refused_without_being_repeated(monkeypatch):
    secret, key = new_key("alice", "admin")
    for wrong in (secret, f"alice:root:{key.digest}", f"alice:admin:{secret}", f"al ice:admin:{key.digest}"):
        monkeypatch.setenv("DIPTYCH_KEYS", wrong)
        with pytest.raises(SettingsError, match=r"keys \(DIPTYCH_KEYS\): .*diptych key NAME") as caught:
            Settings.load()
        assert secret not in str(caught.value)


def test_every_variable_that_is_read_anywhere_is_registered_and_documented():
    root = DOCUMENT.parents[1]
    texts = [
        path.read_text() for room in ("model", "export", "training", "service") for path in (root / room).rglob("*.py")
    ]
    read = {name for text in texts for name in re.findall(r"\bDIPTYCH_([A-Z_]+[A-Z])\b", text)}
    assert read > ELSEWHERE
    assert read - {name.upper() for name in Settings.model_fields} == ELSEWHERE
    apart = "".join(path.read_text() for path in (root / "export").rglob("*.py"))
    assert set(re.findall(r'"DIPTYCH_([A-Z_]+[A-Z])"', apart)) <= ELSEWHERE, "a word with one meaning for the service"
    documented = "".join(path.read_text() for path in (root / "docs").glob("*.md"))
    assert [name for name in sorted(ELSEWHERE) if f"DIPTYCH_{name}`" not in documented] == []
