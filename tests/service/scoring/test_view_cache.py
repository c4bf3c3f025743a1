"""Views of pictures that one closer look after the other uses: described once, and bounded in bytes."""

import numpy as np

from diptych.scoring.view_cache import ViewCache
from diptych_runtime.closer_look.registration import Keypoints
from diptych_runtime.closer_look.verification import View


def view(side: int = 10) -> View:
    return View(
        np.zeros((side, side, 3), np.uint8),
        Keypoints(np.zeros((5, 2), np.float32), np.zeros((5, 128), np.float32), np.ones(5, np.complex64)),
    )


def describing(asked: list[str], **given: View | None):
    def describe(ids: list[str]) -> dict[str, View | None]:
        asked.extend(ids)
        return {id: given.get(id, view()) for id in ids}

    return describe


def test_a_picture_is_described_once_and_one_without_a_file_again_each_time():
    cache, asked = ViewCache(), []
    first = cache.get_views(["a", "b", "lost"], describing(asked, lost=None))
    again = cache.get_views(["b", "a", "lost"], describing(asked, lost=None))
    assert asked == ["a", "b", "lost", "lost"]
    assert (again["a"], again["b"], again["lost"]) == (first["a"], first["b"], None)


def test_those_that_were_not_asked_for_longest_go_first_and_no_more_bytes_stay():
    cache, asked = ViewCache(3 * view().nbytes), []
    for id in "abcad":
        assert cache.get_views([id], describing(asked))[id] is not None
    assert asked == ["a", "b", "c", "d"]
    cache.get_views(["a", "c", "d"], describing(asked))
    assert asked == ["a", "b", "c", "d"], "b went"
    cache.get_views(["b"], describing(asked))
    assert asked[-1] == "b"
    assert cache.get_views(["e"], describing(asked, e=view(100)))["e"] is not None, (
        "one that is too large is still given"
    )
    cache.get_views(["e", "d"], describing(asked))
    assert asked[-2:] == ["e", "d"]
    cache.clear()
    cache.get_views(["d"], describing(asked))
    assert asked[-2:] == ["d", "d"]
