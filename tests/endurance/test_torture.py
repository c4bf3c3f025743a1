"""Faults that a collection must survive, nothing acknowledged lost and nothing false returned: see docs/faults.md."""

from pathlib import Path

from campaign import survived

DEPENDS_ON = (
    "service/diptych/collection",
    "service/diptych/pictures/content.py",
    "service/diptych/scoring",
    "service/diptych/store",
    "export/diptych_runtime",
)

PROGRAM = Path(__file__).with_name("torture.py")
KILLS = {
    "kill-adds",
    "kill-removes",
    "kill-labels",
    "kill-saves",
    "kill-rebuilds",
    "kill-backups",
    "kill-restores",
    "kill-repairs",
    "half-written",
}
SEEN = {"file-limit", "flip-cache", "flip-manifest", "flip-database", "flip-model", "read-only", "second-writer"}
UNSEEN = {"clock", "without-lock"}


def rows_of(artifact: Path, environment: dict[str, str], *arguments: object) -> list[list[str]]:
    """The rows that the program printed; without those of faults that cannot be made here."""
    rows, code = survived(PROGRAM, environment, "--model", artifact, *arguments)
    assert {fault for fault, *_ in rows} - {"full-disk"} == KILLS | SEEN | UNSEEN
    assert (len(rows) == 19) == (code == 0), "only a small disk may be what cannot be had"
    return rows


def test_every_fault_is_survived_many_times_and_those_that_can_be_noticed_are(artifact, environment):
    # Later kills, for on a busy machine little is acknowledged before the first ones.
    rows = rows_of(artifact, environment, "--cycles", 6, "--seed", 2, "--slower", 3)
    for fault, _, acknowledged, noticed, lost, false in rows:
        assert (lost, false) == ("0", "0")
        assert int(acknowledged) > 0 or fault == "flip-model"
        assert int(noticed) > 0 or fault in KILLS | UNSEEN
