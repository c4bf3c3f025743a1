import os
import pwd
import subprocess
from pathlib import Path

import pytest

from diptych_runtime.errors import NoHomeError
from diptych_runtime.paths import (
    cache_folder,
    data_folder,
    existing_form,
    expand_home,
    given_path,
    home_folder,
    shell_word,
)

NFC, NFD = "Gr\u00f6\u00dfe", "Gro\u0308\u00dfe"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return tmp_path / "home"


@pytest.fixture
def nobody(monkeypatch) -> None:
    """A user without HOME whom the list of users does not have."""

    def missing(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", missing)


def test_a_tilde_in_front_is_the_home_folder_or_that_of_a_user(home):
    assert expand_home("~") == str(home)
    assert expand_home("~/Pictures/a.jpg") == str(home / "Pictures/a.jpg")
    assert expand_home("~root/a") == f"{pwd.getpwnam('root').pw_dir.rstrip('/')}/a"
    for path in ("a/~/b", "./~/b", "/~", "", "-", "~nobody-of-this-name/a", "~$draft.jpg", "http://a/~b/c.jpg"):
        assert expand_home(path) == path


def test_a_file_that_is_called_so_is_meant_itself():
    Path("~").mkdir()
    Path("~/a.jpg").touch()
    assert expand_home("~/a.jpg") == "~/a.jpg"


def test_without_a_home_a_tilde_is_refused_with_what_to_set(nobody):
    assert home_folder() is None
    with pytest.raises(NoHomeError, match=r"~/a is in your home folder, and you have none: set HOME"):
        given_path("~/a")
    with pytest.raises(NoHomeError, match=r"in which \.cache would be: name one with --store, or set HOME"):
        cache_folder(otherwise="name one with --store")
    assert given_path("a") == "a"


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_no_absolute_path_is_none(home, monkeypatch):
    monkeypatch.setenv("HOME", home)
    assert home_folder() == Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_the_folders_of_a_user_are_where_xdg_says_if_that_is_absolute(home, monkeypatch):
    assert data_folder(otherwise="") == home / ".local/share"
    assert cache_folder(otherwise="") == home / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", "~/cache")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert (data_folder(otherwise=""), cache_folder(otherwise="")) == (Path("/data"), home / ".cache")


@pytest.mark.parametrize(("there", "named"), [(NFC, NFD), (NFD, NFC)])
def test_a_name_is_found_in_its_other_normal_form_in_every_part_of_a_path(there, named, tmp_path):
    (tmp_path / there).mkdir()
    (tmp_path / there / f"{named}.jpg").touch()
    wanted = f"{tmp_path}/{there}/{named}.jpg"
    assert existing_form(f"{tmp_path}/{named}/{there}.jpg") == wanted
    os.chdir(tmp_path)
    assert existing_form(f"{named}/{there}.jpg") == f"{there}/{named}.jpg"
    assert existing_form(f"{named}/new é.csv") == f"{there}/new é.csv"
    assert existing_form(f"none/{named}") == f"none/{named}"
    assert existing_form(wanted) == wanted


def test_of_two_files_whose_names_differ_in_the_form_alone_the_one_that_is_named_is_meant(tmp_path):
    for name in (NFC, NFD):
        (tmp_path / name).touch()
    assert [existing_form(str(tmp_path / name)) for name in (NFC, NFD)] == [f"{tmp_path}/{NFC}", f"{tmp_path}/{NFD}"]


@pytest.mark.parametrize("name", ["$(touch pwned)", "a;touch pwned", "`touch pwned`", "it's", "-x", "a\nb", "ü 1.jpg"])
def test_a_shell_takes_a_quoted_path_for_one_word_that_is_no_option(tmp_path, name):
    shown = subprocess.run(["sh", "-c", f"printf %s {shell_word(name)}"], capture_output=True, cwd=tmp_path, check=True)
    assert os.path.normpath(shown.stdout.decode()) == name
    assert not shown.stdout.startswith(b"-")
    assert not (tmp_path / "pwned").exists()
