"""What Dockerfile and docker-compose.yml promise: an ordinary user, a health check, no torch, only the volume."""

import json
import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from typed import parsed

from diptych.http.settings import Settings
from diptych.store.location import Address, parse_location

ROOT = Path(__file__).parents[1]


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's (instruction, arguments) in order, continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def final_stage() -> list[tuple[str, str]]:
    steps = instructions()
    starts = [i for i, (name, _) in enumerate(steps) if name == "FROM"]
    assert len(starts) == 2
    return steps[starts[-1] :]


def all_of(name: str, steps: list[tuple[str, str]]) -> list[str]:
    return [arguments for instruction, arguments in steps if instruction == name]


def compose() -> dict:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_the_image_has_the_locked_packages_no_torch_a_health_check_and_a_user_who_owns_only_the_volume() -> None:
    text = " ".join(arguments for _, arguments in instructions())
    assert "EXTRA=cpu" in all_of("ARG", instructions())
    assert '--require-hashes --requirement "service/requirements-${EXTRA}.txt"' in text
    assert "--no-deps /wheels/diptych-*.whl" in text
    assert not re.search(r"\btorch\b|\btrain\b|\bdev\b", text)
    assert all_of("COPY", final_stage()) == ["--from=build /opt/diptych /opt/diptych"]
    (check,) = all_of("HEALTHCHECK", final_stage())
    command = json.loads(check.partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    compile(command[2], "HEALTHCHECK", "exec")
    assert "urllib.request" in command[2]
    assert "http://127.0.0.1:8000/readyz" in command[2]
    (user,) = all_of("USER", final_stage())
    assert int(user.split(":")[0]) >= 1000
    assert all_of("VOLUME", final_stage()) == ["/data"]
    (setup,) = all_of("RUN", final_stage())
    assert "install --directory --owner=diptych --group=diptych /data" in " ".join(setup.split())


def locked(extra: str) -> dict[str, Version]:
    """The versions in a lock file; every one has digests."""
    text = (ROOT / f"service/requirements-{extra}.txt").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")).replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        requirement, *digests = line.split("--hash=")
        assert digests
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}\s*", digest) for digest in digests)
        pinned = Requirement(requirement.strip())
        if pinned.marker is None or pinned.marker.evaluate():
            (specifier,) = pinned.specifier
            assert specifier.operator == "=="
            found[canonicalize_name(pinned.name)] = Version(specifier.version)
    return found


def needed(extra: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [Requirement(line) for line in [*project["dependencies"], *extras[extra], *extras["telemetry"]]]


@pytest.mark.parametrize("extra", ["cpu", "gpu"])
def test_the_lock_file_has_all_that_the_project_asks_for_in_versions_it_takes(extra) -> None:
    versions = locked(extra)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [*needed(extra), *map(Requirement, extras["milvus"])]
    assert [r for r in wanted if not r.specifier.contains(versions[canonicalize_name(r.name)])] == []
    assert "torch" not in versions


def test_the_lock_file_has_all_that_its_packages_ask_for_in_turn() -> None:
    versions, seen = locked("cpu"), set()
    left = needed("cpu")
    while left:
        one = left.pop()
        if one.name in seen or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        seen.add(one.name)
        assert versions[canonicalize_name(one.name)] in one.specifier
        # What is installed here may be of another version than what is locked, so only its names are taken from it.
        left += [
            Requirement(Requirement(text).name) for text in distribution(one.name).requires or () if ";" not in text
        ]
    assert len(seen) > 25


def test_everything_the_build_copies_gets_through_dockerignore() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copies = [names for names in all_of("COPY", instructions()) if "--from" not in names]
    copied = {name for names in copies for name in names.split()[:-1]}
    assert "*" in (ROOT / ".dockerignore").read_text().splitlines()
    assert copied == allowed
    assert all((ROOT / name).exists() for name in allowed)


def test_compose_starts_nothing_without_a_key_and_lets_the_service_reach_its_volume_and_its_port_alone() -> None:
    services = compose()["services"]
    ours = [one for one in services.values() if one.get("image", "").partition(":")[0] == "diptych"]
    assert len(ours) == 5
    assert all(one["environment"]["DIPTYCH_KEYS"].startswith("${DIPTYCH_KEYS:?") for one in ours)
    assert [name for name, one in services.items() if "profiles" not in one] == ["diptych"]
    options = services["diptych"]
    assert (options["read_only"], options["tmpfs"], options["cap_drop"]) == (True, ["/tmp"], ["ALL"])
    assert "no-new-privileges:true" in options["security_opt"]
    assert not {"privileged", "cap_add", "network_mode", "pid"} & set(options)
    assert options["ports"] == ["127.0.0.1:8000:8000"]
    volume, mount = options["volumes"]
    assert (volume, "data" in compose()["volumes"]) == ("data:/data", True)
    # It follows a folder that it cannot change; of a bind in the long form a plain name is a folder too.
    assert (mount["type"], mount["read_only"], mount["source"]) == ("bind", True, "${PICTURES:-./pictures}")
    assert list(map(str, parsed(*options["command"][1:])["sync"])) == [mount["target"]]
    (command,) = all_of("CMD", final_stage())
    assert options["command"][: len(json.loads(command))] == json.loads(command)


def test_the_profile_scale_has_three_services_over_one_collection_behind_a_balancer() -> None:
    scaled = {name: one for name, one in compose()["services"].items() if one.get("profiles") == ["scale"]}
    replicas = {name: one for name, one in scaled.items() if one["image"] == "diptych"}
    assert len(replicas) == 3
    assert set(scaled) - set(replicas) == {"balancer", "milvus"}
    for one in replicas.values():
        found = parse_location(one["command"][one["command"].index("--store") + 1])
        assert isinstance(found, Address)
        assert found.server == "http://milvus:19530"
        assert any(volume.endswith(f":{found.originals}") for volume in one["volumes"])
        # A new volume has the owner that its place has in the image; without one it would be root's.
        owned = re.search(
            r"install --directory --owner=diptych --group=diptych (.*)", (ROOT / "Dockerfile").read_text()
        )
        assert owned is not None
        assert str(found.originals) in owned[1].split()
        drain = float(one["environment"]["DIPTYCH_DRAIN_SECONDS"])
        assert float(one["stop_grace_period"].removesuffix("s")) > drain + Settings().seconds
        assert parsed(*one["command"][1:])["store"] == found
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
    config = (ROOT / "service/scale/Caddyfile").read_text()
    (upstreams,) = re.findall(r"reverse_proxy (.*) \{", config)
    assert upstreams.split() == [f"{name}:8000" for name in replicas]
    assert "health_uri /readyz" in config
    for one in scaled.values():
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in compose()["volumes"]
