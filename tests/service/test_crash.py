"""Ctrl-C in the middle of adding: what was added is kept, whole, and found. kill -9: endurance/test_torture.py."""

from diptych import Collection

PICTURES = 200


def test_ctrl_c_keeps_what_was_added_and_says_so(artifact, scorer, photo_bytes, tmp_path, monkeypatch, diptych):
    many, store = tmp_path / "many", tmp_path / "store"
    many.mkdir()
    for seed in range(PICTURES):
        (many / f"{seed:03d}.png").write_bytes(photo_bytes(seed, (40, 40), "PNG"))
    commit, calls = Collection.commit, []

    def interrupted(self, arrivals):
        calls.append(len(arrivals))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return commit(self, arrivals)

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "commit", interrupted)
        result = diptych("index", "add", many, "--store", store, "--model", artifact, "--threads", 1)
    assert result.code == 130
    assert "128 added, 0 already there, 0 refused" in result.out
    assert "what was added is kept" in result.err
    with Collection.open(store, scorer) as collection:
        held = {record.id for record in collection.list(PICTURES)}
        assert len(held) == 128
        assert collection.verify().healthy
        found = collection.search(many / "000.png", top=PICTURES, candidates=0)
        assert {match.id for match in found.matches} == held
