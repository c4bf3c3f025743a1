"""The view Label in a real browser: the keyboard alone suffices, on a phone and a desk, light and dark."""

from __future__ import annotations

import pytest
from pages import PHONE, check_width, says

from diptych.http.routes import labels
from diptych.http.schemas.responses import LabelCounts
from diptych.labelling.calibrate import FEWEST, FEWEST_OF_A_KIND

pytestmark = pytest.mark.browser

DESK = {"width": 1280, "height": 860}


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


def tab_to(page, wanted: str) -> None:
    """Press Tab until the element of this selector has the focus, and see that it shows it."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("wanted => document.activeElement.matches(wanted)", wanted):
            break
    else:
        pytest.fail(f"Tab does not come to {wanted}")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", wanted


def test_from_the_address_bar_on_no_mouse_is_needed(visit, client, collection):
    page = visit(client)
    page.wait_for_selector("#examples:not([hidden])")
    tab_to(page, "#to-label")
    page.keyboard.press("Enter")
    page.wait_for_selector("#label-pictures img")
    page.keyboard.press("s")
    says(page, "#label-status", "1 label: 1 same")
    tab_to(page, "#label-answers button[value='different']")
    page.keyboard.press("Enter")
    says(page, "#label-status", "2 labels: 1 same, 1 not the same")
    tab_to(page, "#label-undo")
    page.keyboard.press("Space")
    says(page, "#label-status", "Taken back: not the same. 1 label")
    tab_to(page, "#label-export")
    assert list(labelled(collection).values()) == ["same"]
    table = client.get(page.get_attribute("#label-export", "href")).text.splitlines()
    assert (table[0].startswith("image_a,image_b,question,answer"), len(table)) == (True, 2)


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


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(PHONE, "light", id="phone-light"),
        pytest.param(DESK, "dark", id="desk-dark"),
        pytest.param(PHONE, "dark", id="phone-dark", marks=pytest.mark.slow),
        pytest.param(DESK, "light", id="desk-light", marks=pytest.mark.slow),
    ],
)
def test_both_pictures_and_all_answers_are_in_sight_at_once(visit, client, size, scheme):
    page = visit(client, "#/label", viewport=size, color_scheme=scheme)
    page.wait_for_function(
        "() => [...document.querySelectorAll('#label-pictures img')].filter(image => image.naturalWidth).length === 2"
    )
    check_width(page)
    for selector in ("#label-pictures img >> nth=0", "#label-pictures img >> nth=1", "#label-answers"):
        box = page.locator(selector).bounding_box()
        assert box is not None
        assert box["y"] >= 0, selector
        assert box["y"] + box["height"] <= size["height"], selector
