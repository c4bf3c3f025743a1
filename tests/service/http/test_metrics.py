"""What /metrics counts, and what the board and the alerts ask of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from diptych.http.app import create_app
from diptych.http.settings import Settings


def figures(client) -> dict[tuple, float]:
    """Every sample by its name and labels."""
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


def test_what_a_stranger_makes_up_is_neither_counted_for_ever_nor_a_line_of_the_log(serve, caplog):
    with serve() as client, caplog.at_level("INFO", "diptych.access"):
        client.request("BREW", "/coffee%0aGET / 200")
        counted = figures(client)
    assert not any("BREW" in part for key in counted for label in key[1:] for part in label)
    assert counted["diptych_request_seconds_count", ("method", "other"), ("route", "other"), ("status", "404")] == 1
    (line,) = [record.getMessage() for record in caplog.records if "coffee" in record.getMessage()]
    assert line.startswith("other /coffee%0AGET%20/%20200 404")


def test_requests_stages_pairs_and_rejections_are_counted(serve, scorer, collection, photo_bytes, data_uri):
    uri = data_uri(photo_bytes(1))
    with serve(Settings(pictures=3)) as client:
        before = figures(client)
        client.post("/v1/score", json={"queries": uri, "documents": [uri, data_uri(photo_bytes(2))]})
        client.post("/v1/search", files={"image": photo_bytes(3)})
        for _ in range(2):  # the second time it is known
            client.post("/v1/images", files={"image": photo_bytes(40)})
        client.post("/v1/score", json={"queries": uri, "documents": [uri] * 9})
        client.get("/nope/whatever")
        after = figures(client)

    def more(name: str, **labels: str) -> float:
        key = (name, *sorted(labels.items()))
        return after.get(key, 0) - before.get(key, 0)

    posted = {"method": "POST", "status": "200"}
    assert more("diptych_request_seconds_count", route="/v1/score", **posted) == 1
    assert more("diptych_request_seconds_count", route="/v1/score", method="POST", status="422") == 1
    assert more("diptych_request_seconds_count", route="/v1/images", method="POST", status="201") == 1
    assert more("diptych_request_seconds_count", route="other", method="GET", status="404") == 1
    assert more("diptych_rejections_total", reason="too_many_pictures") == 1
    assert more("diptych_done_total", what="pairs") == 2 + 5
    assert more("diptych_done_total", what="pictures") == 3 + 1 + 1
    for stage, times in {"queue": 4, "decode": 4, "panel": 4, "pair": 2, "retrieve": 1}.items():
        assert more("diptych_stage_seconds_count", stage=stage) == times, stage
    assert after["diptych_collection_pictures", ("collection", "default")] == 6
    assert after["diptych_index_generation", ("collection", "default")] == collection.index.generation
    assert (after["diptych_pairs_waiting",], after["diptych_pairs_in_flight",]) == (0, 0)
    runtime = scorer.runtime
    (info,) = [dict(key[1:]) for key in after if key[0] == "diptych_service_info"]
    assert (info["model"], info["provider"]) == (runtime.name, runtime.provider)


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


def test_what_prometheus_sends_without_a_secret_is_let_in_where_there_are_no_keys(reader):
    head = {"authorization": "Bearer", "host": "diptych:8000"}
    assert reader.get("/metrics", headers=head).status_code == 200
