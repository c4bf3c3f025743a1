from diptych.collection.sync.plan import Plan
from diptych.collection.sync.run import Outcome
from diptych.collection.sync.summary import has_changes, summary_data, summary_text


def test_every_list_says_what_became_of_which_picture():
    outcome = Outcome(
        plan=Plan(5, {"m": "/p/to"}, {"old": "/p/c"}, {"r": "/p/r"}, {"k": "/p/k"}),
        added={"n": "/p/n", "new": "/p/c"},
        before={"m": "/p/from", "old": "/p/c", "r": "/p/r", "k": "/p/k"},
        refused={"/p/x": "/p/x is not a picture"},
        closed={"/p/d": "/p/d cannot be listed"},
        copies=2,
        returned={"n"},
        kept=3,
    )
    assert summary_data(outcome, 9) == {
        "new": [{"id": "n", "path": "/p/n"}],
        "changed": [{"id": "new", "path": "/p/c", "was": "old"}],
        "moved": [{"id": "m", "from": "/p/from", "to": "/p/to"}],
        "removed": [{"id": "r", "path": "/p/r"}],
        "unplaced": [{"id": "k", "path": "/p/k"}],
        "returned": [{"id": "n", "path": "/p/n"}],
        "unchanged": 5,
        "copies": 2,
        "refused": [{"path": "/p/x", "reason": "/p/x is not a picture"}],
        "closed": [{"path": "/p/d", "reason": "/p/d cannot be listed"}],
        "skipped": [],
        "left_out": {},
        "objection": None,
        "kept_metadata": 3,
        "keep_days": 90,
        "total": 9,
    }
    first, *rest = summary_text(outcome, 9, would=True).splitlines()
    assert first == (
        "would be: 1 new, 1 changed, 1 moved, 1 removed, 1 without a file, 5 unchanged (and 2 more files of theirs), "
        "1 refused; the metadata of 3 removed are kept for 90 days; 1 got back the metadata of before; 9 pictures in "
        "all"
    )
    assert "  moved: /p/from -> /p/to" in rest
    assert rest[-2:] == ["  /p/x is not a picture", "  /p/d cannot be listed; its pictures stay"]
    assert has_changes(outcome)
    assert has_changes(Outcome(Plan(unplaced={"k": "/p/k"})))
    assert not has_changes(Outcome(refused={"/p/x": "no"}))
