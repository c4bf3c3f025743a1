"""The board and the alerts ask for what the service tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from diptych.http.app import create_app
from diptych.http.middleware.auth import new_key
from diptych.http.settings import Settings

ROOT = Path(__file__).parents[3]
OBSERVE = ROOT / "service" / "observe"
PROMETHEUS_OWN = {"up"}


@pytest.fixture(scope="module")
def told(scorer, shelf) -> set[str]:
    metrics = create_app(shelf, scorer).state.context.metrics
    metrics.count_request("/x", "GET", 429, 0.1, "overloaded")
    metrics.add_stages({"pair": 0.1})
    metrics.count_items("pairs", 1)
    return {line.split("{")[0].split(" ")[0] for line in metrics.render_text().decode().splitlines() if line[0] != "#"}


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
            source = volume.removeprefix("${DIPTYCH_METRICS_KEY_FILE:-").split(":")[0].rstrip("}")
            assert (ROOT / source).exists() if source[0] in "./" else source in compose["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    (scraped,) = yaml.safe_load((OBSERVE / "prometheus.yml").read_text())["scrape_configs"]
    assert scraped["static_configs"][0]["targets"] == ["diptych:8000"]
    key = scraped["authorization"]["credentials_file"]
    assert any(f":{key}:" in volume for volume in observing["prometheus"]["volumes"])


def test_what_prometheus_sends_without_a_secret_and_with_one_is_let_in(running, shelf, scorer):
    secret, key = new_key("prometheus", "read")
    closed = Settings(keys=(key,))
    for settings, sent, expected in (
        (Settings(), "Bearer", 200),
        (closed, f"Bearer {secret}", 200),
        (closed, "Bearer", 401),
    ):
        with running(shelf, scorer, settings) as client:
            head = {"authorization": sent, "host": "diptych:8000"}
            assert client.get("/metrics", headers=head).status_code == expected
