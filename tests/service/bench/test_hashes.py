import numpy as np
import pytest

from diptych.bench import hashes
from diptych.pictures.file_info import Picture


@pytest.mark.parametrize("words", [1, 4])
def test_close_pairs_are_those_that_plain_loops_find(words, monkeypatch):
    monkeypatch.setattr(hashes, "_ROWS", 7)
    random = np.random.default_rng(1)
    made = random.integers(0, 2**63, (23, words), dtype=np.uint64)
    made[11] = made[3] ^ np.uint64(5)
    made[20] = made[3]
    distance = [[sum((int(x) ^ int(y)).bit_count() for x, y in zip(a, b, strict=True)) for b in made] for a in made]
    for tolerance in (0, 1, 2, 8, 64 * words):
        expected = [(a, b) for a in range(23) for b in range(a + 1, 23) if distance[a][b] <= tolerance]
        assert sorted(hashes.close_pairs(made, tolerance)) == expected
    assert hashes.close_pairs(made, 0) == [(3, 20)]


def test_every_hash_finds_what_was_only_saved_again_and_says_what_it_took(tmp_path, photo):
    pictures = []
    for number, name in enumerate(("a.png", "b.png", "b again.jpg")):
        picture = photo(min(number, 1), (200, 150))
        picture.save(tmp_path / name)
        pictures.append(Picture(f"{number:032x}", str(tmp_path / name), 1, 1, 200, 150, "PNG"))
    found = list(hashes.measured(pictures, 1))
    assert len(found) == sum(len(tolerances) for *_, tolerances in hashes.HASHES.values())
    assert all(seconds > 0 for _, _, seconds, _ in found)
    loose = {name: groups for name, tolerance, _, groups in found if tolerance in (10, 14, 40)}
    assert loose.keys() == hashes.HASHES.keys()
    assert all(
        [str(tmp_path / "b again.jpg"), str(tmp_path / "b.png")] in map(sorted, groups) for groups in loose.values()
    )
