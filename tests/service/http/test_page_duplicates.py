"""The view Duplicates in a real browser, on drawn scenes that the released model compared."""

from __future__ import annotations

import shutil
from itertools import count
from threading import Event

import pytest
from exported import drawn_collection
from pages import says

from diptych import Collection, Scorer, find_duplicates
from diptych.dedupe import pair_scores
from diptych.http import pair_jobs
from diptych.http.routes import search

pytestmark = [pytest.mark.usefixtures("compared"), pytest.mark.browser]


@pytest.fixture(scope="module")
def photo(network_alone) -> Scorer:
    return network_alone


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, photo):
    """The folder of a collection of drawn scenes and of edited copies of some of them."""
    folder = tmp_path_factory.mktemp("drawn")
    photos = drawn_collection(folder, 24)
    with Collection.open(folder / "store", photo, create=True) as collection:
        collection.add([*photos, *sorted((folder / "queries").glob("*-edited.jpg"))])
    return folder / "store"


@pytest.fixture
def scenes(tmp_path, photo, drawn):
    shutil.copytree(drawn, tmp_path / "scenes")
    with Collection.open(tmp_path / "scenes", photo) as collection:
        yield collection


def start(page) -> None:
    page.wait_for_function("() => !document.querySelector('#look').disabled")
    page.click("#look")


@pytest.fixture
def looked(visit, running, scenes, photo):
    """The page once it has looked for duplicates."""
    with running(scenes, photo) as client:
        page = visit(client, "#/duplicates", refusals=True)
        start(page)
        page.wait_for_selector("#groups .group")
        yield page


def groups(page) -> list[list[str]]:
    """The ids of the pictures of every drawn group, the one to keep first."""
    return page.eval_on_selector_all(
        "#groups .group",
        "groups => groups.map(group => [...group.querySelectorAll('.copy')].map(copy => copy.dataset.id))",
    )


def selected(page) -> list[str]:
    """The ids of the pictures that are selected in the drawn groups."""
    query = "copies => copies.filter(copy => copy.querySelector('input')?.checked).map(copy => copy.dataset.id)"
    return page.eval_on_selector_all("#groups .copy", query)


def slide(page, step: int) -> None:
    page.eval_on_selector(
        "#threshold", "(node, step) => { node.value = step; node.dispatchEvent(new Event('input')) }", step
    )


def ids(found) -> dict[str, set[str]]:
    """The ids of the pictures of every group by that of the one to keep."""
    return {group.keeper.id: {member.picture.id for member in group.others} for group in found.groups}


def drawn_ids(page) -> dict[str, set[str]]:
    return {keeper: set(others) for keeper, *others in groups(page)}


def test_the_groups_are_those_of_the_program_and_every_picture_is_seen(looked, scenes):
    found = find_duplicates(scenes)
    assert drawn_ids(looked) == ids(found)
    assert len(groups(looked)) > 2
    assert sorted(selected(looked)) == sorted(
        one.picture.id for g in found.groups for one in g.others if one.replaced_by
    )
    assert f"{len(groups(looked))} groups, {len(selected(looked))} picture" in looked.inner_text("#groups-summary")
    assert looked.locator("#groups .copy.keeper .tag").count() == len(groups(looked))
    for place in range(len(groups(looked))):  # a picture is asked for when it comes into sight
        looked.locator("#groups .group").nth(place).scroll_into_view_if_needed()
        looked.wait_for_function(
            "place => [...document.querySelectorAll('#groups .group')[place].querySelectorAll('img')]"
            ".every(image => image.naturalWidth > 0)",
            arg=place,
        )


def test_the_slider_groups_anew_with_pairs_from_both_sides_and_leads_back(looked, scenes):
    before = groups(looked)
    slide(looked, 0)
    lenient = float(looked.inner_text("#threshold-value"))
    slide(looked, 340)
    strict = float(looked.inner_text("#threshold-value").strip("> "))
    assert lenient == 0.5
    assert strict > 0.99
    passing = [float(text.strip("> ")) for text in looked.locator("#pass li a > span").all_inner_texts()]
    failing = [float(text.strip("> ")) for text in looked.locator("#fail li a > span").all_inner_texts()]
    assert failing == sorted(failing, reverse=True)
    assert len(failing) >= 1
    assert max(failing) <= strict <= min(passing, default=1.0)
    assert sum(map(len, groups(looked))) < sum(map(len, before))
    looked.click("#as-found")
    assert groups(looked) == before
    assert looked.evaluate("document.activeElement.id") == "threshold"
    looked.keyboard.press("ArrowRight")
    assert looked.is_visible("#as-found"), "by the keyboard, a step at a time"
    pair = looked.get_attribute("#pass a >> nth=0", "href")
    looked.click("#pass a >> nth=0")
    looked.wait_for_selector("#why-dialog .link")
    assert looked.evaluate("location.hash") == pair


@pytest.mark.slow
def test_the_one_to_keep_is_changed_and_the_selection_follows(looked):
    first = groups(looked)[0]
    looked.click("#groups .group >> nth=0 >> text=Keep this >> nth=0")
    assert groups(looked)[0][:2] == [first[1], first[0]]
    assert looked.locator(f"#groups .copy[data-id='{first[0]}'] input").is_checked()
    summary = looked.inner_text("#groups-summary")
    assert looked.evaluate("document.activeElement.type") == "checkbox"
    looked.keyboard.press("Space")
    assert looked.inner_text("#groups-summary") != summary
    looked.click("#select-none")
    assert ", 0 pictures selected" in looked.inner_text("#groups-summary")
    assert looked.is_disabled("#remove-selected")
    looked.click("#select-others")
    assert looked.inner_text("#groups-summary") == summary
    assert groups(looked)[0][0] == first[1]


def test_pictures_go_only_after_a_clear_yes_and_the_ones_to_keep_stay(looked, scenes):
    before, found, going = len(scenes), groups(looked), selected(looked)
    assert going
    looked.click("#remove-selected")
    assert looked.inner_text("#confirm-title").startswith(f"Remove {len(going)} picture")
    looked.keyboard.press("Enter")
    looked.wait_for_selector("#confirm", state="hidden")
    assert len(scenes) == before
    looked.click("#remove-selected")
    looked.click("#confirm-yes")
    says(looked, "#look-status", f"{len(going)} of {len(going)} picture")
    says(looked, "#facts", f"{before - len(going)} pictures")
    assert scenes.store.known_ids(going) == set()
    stay = {id for group in found for id in group} - set(going)
    assert scenes.store.known_ids(sorted(stay)) == stay
    assert selected(looked) == []
    says(looked, "#groups-summary", ", 0 pictures selected" if groups(looked) else "No two pictures")
    looked.click("#look")
    looked.wait_for_selector("#look-found:not([hidden])")
    assert drawn_ids(looked) == ids(find_duplicates(scenes))
    looked.click("#to-collection")
    says(looked, "#shown", f"of {before - len(going)} pictures")


@pytest.mark.slow
def test_leaving_the_view_stops_asking_and_coming_back_goes_on(visit, running, scenes, photo, monkeypatch):
    monkeypatch.setattr(pair_jobs, "SECONDS", 0.0)
    monkeypatch.setattr(pair_scores, "BATCH", 20)
    asked, number, left, check = [], count(), Event(), search.check_request

    def held(*words) -> None:
        if next(number) >= 2:
            assert left.wait(20), "the third request is not through before the view is left"
        check(*words)

    monkeypatch.setattr(search, "check_request", held)
    with running(scenes, photo) as client:
        page = visit(client, "#/duplicates")
        page.on("request", lambda request: asked.append(request.url) if "duplicates" in request.url else None)
        start(page)
        page.wait_for_selector("#look-bar:not([hidden])")
        says(page, "#look-status", "pairs compared")
        page.click("#to-status")
        page.wait_for_timeout(300)
        before = len(asked)
        page.wait_for_timeout(700)
        assert len(asked) == before
        left.set()
        page.click("#to-duplicates")
        says(page, "#look", "Continue")
        page.click("#look")
        page.wait_for_selector("#groups .group")
        assert page.inner_text("#look") == "Search again"
        assert drawn_ids(page) == ids(find_duplicates(scenes))


@pytest.mark.slow
def test_who_may_only_look_finds_groups_and_is_told_kindly_that_none_goes(visit, running, looking_only, scenes, photo):
    before, (settings, login) = len(scenes), looking_only
    with running(scenes, photo, settings) as client:
        page = visit(client, "#/duplicates", refusals=True, **login)
        start(page)
        page.wait_for_selector("#groups .group")
        page.click("#remove-selected")
        page.click("#confirm-yes")
        says(page, "#duplicates-alert", "Your key can look but not change")
        assert page.is_hidden("#remove-selected")
        assert page.locator("#groups input:visible").count() == 0
    assert len(scenes) == before


@pytest.mark.slow
def test_what_is_wrong_is_said_and_where_nothing_is_kept_too(visit, running, scenes, photo):
    (scenes.directory / "dedupe.sqlite").write_bytes(b"no database at all" * 400)
    with running(scenes, photo) as client:
        page = visit(client, "#/duplicates", refusals=True)
        start(page)
        says(page, "#duplicates-alert", "delete it: the next run computes again")
    with running(None, photo) as client:
        page = visit(client, "#/duplicates")
        says(page, "#duplicates-none-title", "There is no collection here")
        assert page.is_hidden("#duplicates-some")
