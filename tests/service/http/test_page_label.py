"""The view Label in a real browser: the keyboard alone suffices."""

from __future__ import annotations

import pytest
from pages import says

from diptych.http.routes import labels
from diptych.http.schemas.responses import LabelCounts
from diptych.labelling.calibrate import FEWEST, FEWEST_OF_A_KIND

pytestmark = pytest.mark.browser


def shown(page) -> str:
    return page.get_attribute("#label-pictures", "data-pair")


@pytest.fixture
def view(visit, client):
    page = visit(client, "#/label")
    page.wait_for_selector("#label-pictures img")
    return page


def labelled(collection) -> dict[str, str]:
    return {" ".join(sorted(one.pair)): one.answer for one in collection.labels("copy")}


def test_every_pair_is_labelled_by_the_keyboard_alone(view, collection):
    given = {}
    for number, key in enumerate(["s", "d", "?", "1", "2", "3", "S", "s", "d", "d"]):
        view.wait_for_selector("#label-pair:not([hidden])")
        pair = shown(view)
        assert pair is not None
        view.keyboard.press(key)
        answer = {"s": "same", "1": "same", "d": "different", "2": "different"}.get(key.lower(), "cannot tell")
        given[" ".join(sorted(pair.split()))] = answer
        says(view, "#label-status", f"{number + 1} label")
    assert labelled(collection) == given
    assert len(given) == 10
    says(view, "#label-done:not([hidden])", "no more pairs")
    assert view.is_hidden("#label-pair")
    says(view, "#label-status", "10 labels: 4 same, 4 not the same, 2 cannot tell.")
    says(view, "#label-next", f"At least {FEWEST - 8} more answers")


def test_the_names_of_files_are_hidden_until_their_pair_is_answered(view, collection):
    names = [record.metadata["filename"] for record in collection.list(5)]
    shown_now = view.inner_html("#label-pictures")
    assert "Picture A" in shown_now
    assert not [name for name in names if name in shown_now]
    view.keyboard.press("s")
    says(view, "#label-status", "1 label")
    assert len([name for name in names if name in view.inner_text("#label-status")]) == 2


def test_when_there_are_enough_labels_the_view_says_what_comes_next(visit, client, monkeypatch):
    enough = LabelCounts(same=FEWEST - FEWEST_OF_A_KIND, different=FEWEST_OF_A_KIND, cannot_tell=0)
    monkeypatch.setattr(labels, "count_labels", lambda *_: enough)
    page = visit(client, "#/label")
    says(page, "#label-next", "run diptych calibrate --store FOLDER")
    assert "restart the service" in page.inner_text("#label-next")


def test_an_answer_is_taken_back_and_its_pair_comes_again(view, collection):
    pairs = []
    for key in "sd":
        pairs.append(shown(view))
        view.keyboard.press(key)
        says(view, "#label-status", f"{len(pairs)} label")
    view.keyboard.press("u")
    says(view, "#label-status", "Taken back: not the same. 1 label")
    assert shown(view) == pairs[1]
    view.click("#label-undo")
    says(view, "#label-status", "Taken back: the same. 0 labels")
    assert shown(view) == pairs[0]
    assert view.is_hidden("#label-undo")
    view.keyboard.press("u")
    assert labelled(collection) == {}


def test_keys_are_for_this_view_alone_and_not_for_shortcuts_of_the_browser(view, collection):
    for chord in ("Control+s", "Alt+d"):
        view.keyboard.press(chord)
    view.click("#to-status")
    view.wait_for_selector("#view-status:not([hidden])")
    view.keyboard.press("s")
    view.wait_for_timeout(100)
    assert labelled(collection) == {}
