"""The board and the alerts ask for what the service tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from diptych.collections import Collections
from diptych.http.metrics import Metrics

ROOT = Path(__file__).parents[3]
OBSERVE = ROOT / "service" / "observe"
PROMETHEUS_OWN = {"up"}


@pytest.fixture(scope="module")
def told(scorer, shelf) -> set[str]:
    metrics = Metrics(scorer, Collections.of(shelf))
    metrics.request("/x", "GET", 200, 0.1)
    metrics.refusal("overloaded")
    metrics.stage("pair", 0.1)
    metrics.done("pairs", 1)
    return {line.split("{")[0].split(" ")[0] for line in metrics.text().decode().splitlines() if line[0] != "#"}


def expressions() -> dict[str, str]:
    """Every expression by what it belongs to."""
    rules = yaml.safe_load((OBSERVE / "alerts.yml").read_text())["groups"][0]["rules"]
    board = json.loads((OBSERVE / "grafana" / "dashboards" / "diptych.json").read_text())
    panels = {f"{p['title']} {t['refId']}": t["expr"] for p in board["panels"] for t in p["targets"]}
    return {rule["alert"]: rule["expr"] for rule in rules} | panels


@pytest.mark.parametrize("name", expressions())
def test_every_figure_that_is_asked_for_is_told(name, told):
    text = re.sub(r"\{[^}]*\}|\[[^]]*\]|by \([^)]*\)", "", expressions()[name])
    asked = set(re.findall(r"\b(?:diptych|process|up)(?:_\w+)?\b", text))
    assert asked
    assert asked <= told | PROMETHEUS_OWN


def test_the_profile_observe_mounts_what_is_there_and_opens_nothing_to_the_network():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    observing = {name: one for name, one in compose["services"].items() if one.get("profiles") == ["observe"]}
    assert set(observing) == {"prometheus", "grafana"}
    for one in observing.values():
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in compose["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    scraped = yaml.safe_load((OBSERVE / "prometheus.yml").read_text())["scrape_configs"][0]["static_configs"][0]
    assert scraped["targets"] == ["diptych:8000"]
