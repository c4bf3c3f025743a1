"""The report in a real browser, without a network, on drawn scenes that the released model compared."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from exported import drawn_collection
from PIL import Image

from diptych import Collection, Scorer
from diptych.dedupe.duplicates import Group, Member
from diptych.dedupe.find import duplicates_among
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.hashes import duplicates_by_hash
from diptych.dedupe.keeper import preference_order
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.report.page import SIDE, make_thumbnails, page_data, write_page
from diptych.dedupe.scan import list_picture_files, resolve_folders, scan_files
from diptych_runtime.decoder import PictureLimits

pytestmark = pytest.mark.browser

NASTY = "<!--<script><img src=x onerror=alert(1)>&amp; 'ü.jpg"  # a file name has no slash


def never(path, reason):
    pytest.fail(f"{path} was refused: {reason}")


@pytest.fixture(scope="module")
def scorer():
    return Scorer.load("photo-small", threads=2)


@pytest.fixture(scope="module")
def found(tmp_path_factory, scorer, photo_bytes):
    """(what was found, the folders) among drawn scenes, edits of them and exact copies, one with a hostile name."""
    folder = tmp_path_factory.mktemp("drawn")
    photos = drawn_collection(folder, 24)
    copies = folder / "photos" / "copies"
    copies.mkdir()
    for photo in photos[::20]:
        (copies / photo.name).write_bytes(photo.read_bytes())
    # Not one of the scenes, all of which have look-alikes.
    shapes = photo_bytes(7, (90, 60), "PNG")
    for name in ("shapes.png", NASTY):
        (copies / name).write_bytes(shapes)
    roots = resolve_folders([folder / "photos", folder / "queries"])
    with (
        Collection.open(folder / "store", scorer, create=True) as collection,
        PairCache(None, scorer.runtime.revision) as pair_cache,
    ):
        seen = scan_files(roots, list_picture_files(roots, never), collection, pair_cache)
        return duplicates_among(collection, seen.pictures, threshold=0.93, pair_cache=pair_cache), roots


@pytest.fixture(scope="module")
def report(found, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_page(path, found[0], found[1], [{"path": "/x/<b>.jpg", "reason": "it is damaged"}])
    return path


@pytest.fixture
def visit(browser, report):
    """`visit(...)` opens the report; in the end nothing may have gone wrong in it, and nobody was asked anything."""
    faults, contexts = [], []

    def visit(report=report, **options):
        contexts.append(browser.new_context(accept_downloads=True, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on("dialog", lambda dialog: faults.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: request.url[:5] in ("file:", "data:", "blob:") or faults.append(request.url))
        page.goto(report.as_uri())
        page.wait_for_selector(".group")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert not faults


def shown(page) -> list[list[str]]:
    """The paths of every group that there is, the one to keep first, drawn or not."""
    return page.evaluate("state.groups.map((group) => group.members.map((picture) => picture.path))")


def slide(page, threshold: float) -> float:
    """Move the slider as near to a threshold as it goes, and return the threshold that is then."""
    return page.evaluate(
        """(wanted) => { const slider = $("threshold");
            slider.value = Math.round((400 * (odds(wanted) - LOW)) / (HIGH - LOW));
            slider.dispatchEvent(new Event("input")); return state.threshold; }""",
        threshold,
    )


def until(page, expression: str) -> None:
    """Wait until it is true; Playwright's own way to wait evaluates a text, which the page's policy forbids."""
    end = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"it never became true: {expression}"
        page.wait_for_timeout(20)


def test_the_page_groups_as_the_program_did(visit, found):
    duplicates, _ = found
    expected = {group.keeper.path: {m.picture.path for m in group.others} for group in duplicates.groups}
    page = visit()
    assert len(expected) >= 6
    assert {keeper: set(others) for keeper, *others in shown(page)} == expected
    going = page.evaluate("state.groups.flatMap(going).map((picture) => picture.path)")
    assert sorted(going) == sorted(duplicates.to_remove)
    assert len(going) > 0

    assert page.inner_text("#summary").startswith(f"{len(expected)} groups, {len(going)} pictures selected, ")


def test_at_every_threshold_the_page_groups_by_the_same_rule_as_python(visit, found):
    data, _ = page_data(*found)
    path = lambda place: data["roots"][data["pictures"][place][0]] + data["pictures"][place][1]  # noqa: E731
    files = {}
    for place, picture in enumerate(data["pictures"]):
        files.setdefault(picture[7], []).append(path(place))
    page, counts = visit(), set()
    for wanted in (data["bound"], 0.95, 0.99, 0.999, 0.99999):
        threshold = slide(page, wanted)
        assert abs(threshold - wanted) < 0.01
        pairs, scores = [(a, b) for a, b, _ in data["pairs"]], [score for *_, score in data["pairs"]]
        groups = group_items(range(data["contents"]), matches_of(pairs, scores, threshold), threshold)
        taken = {content for group in groups for content in group}
        groups += [[content] for content in files if content not in taken and len(files[content]) > 1]
        expected = sorted(sorted(name for content in group for name in files[content]) for group in groups)
        assert sorted(map(sorted, shown(page))) == expected
        counts.add(sum(map(len, expected)))
    assert len(counts) > 2, "the threshold made a difference"
    page.click("#as-found")
    assert page.evaluate("state.threshold") == data["threshold"]
    assert page.is_hidden("#as-found")


def test_every_picture_is_shown_with_its_facts_and_a_hostile_name_is_only_a_name(visit, found):
    page = visit()
    for image in page.locator(".copy img").all():
        image.scroll_into_view_if_needed()
    until(page, "[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.locator(".copy img").count() >= 10
    assert NASTY in "".join(page.locator(".copy .name").all_text_contents())
    assert re.search(r"\d+ × \d+, [\d.]+ kB, (JPEG|PNG)", page.locator(".group").first.text_content())
    page.click("#refused summary")
    assert page.inner_text("#refused li") == "/x/<b>.jpg: it is damaged"


def test_the_page_says_why_each_picture_is_kept_as_the_table_does(visit, found):
    page = visit()
    said = page.evaluate("state.groups.map((group) => [group.keeper.path, reasons(group).split(', ')])")
    expected = {group.keeper.path: set(", ".join(group.kept_because).split(", ")) for group in found[0].groups}
    assert {path: set(words) for path, words in said} == expected
    assert any(expected.values())
    told = page.evaluate("state.groups.flatMap((group) => group.members.map((one) => [one.path, told(one, group)]))")
    left = {m.picture.path: m.kept_because for group in found[0].groups for m in group.others if not m.replaced_by}
    assert left
    assert all(dict(told)[path].endswith(f"; left to you: {why}") for path, why in left.items())
    page.locator(".copy:not(.keeper) button").first.click()
    assert "the one to keep: chosen by you" in page.inner_text(".group .copy.keeper .tag")


def test_a_report_by_hash_counts_bits(visit, found, tmp_path):
    pictures, roots = found[0].pictures, found[1]
    first, near, far = sorted({one.id for one in pictures})[:3]
    hashes = {one.id: None for one in pictures} | {first: 0, near: 0b11, far: 0b1111}
    hashed = duplicates_by_hash(pictures, hashes)
    write_page(tmp_path / "r.html", hashed, roots)
    page = visit(tmp_path / "r.html")
    assert {keeper: set(others) for keeper, *others in shown(page)} == {
        group.keeper.path: {member.picture.path for member in group.others} for group in hashed.groups
    }
    assert page.inner_text("label[for=threshold]") == "Bits that may differ"
    assert page.inner_text("#threshold-value") == "4"
    assert "likely, 2 of 64 bits differ" in page.inner_text("#groups")
    proven = set(hashed.to_remove)
    assert set(page.evaluate("state.groups.flatMap(going).map((picture) => picture.path)")) == proven
    assert (len(proven) > 0, hashed.undecided > 0) == (True, True)
    assert "Only exact copies are selected. The other pictures have similar hashes, but no model" in page.inner_text(
        "#unseen"
    )
    assert page.inner_text("#told-by") == "By digest and perceptual hash, at most 4 of 64 bits apart"
    everything = sum(map(len, shown(page)))
    slide(page, 1 - 1e-9)
    assert page.inner_text("#threshold-value") == "0"
    assert sum(map(len, shown(page))) < everything


def with_reference(group: Group) -> Group:
    """The group with its picture of `copies/` as a reference, if it has one: that stands for the others."""
    pictures = [group.keeper, *(member.picture for member in group.others)]
    if not (references := [replace(one, reference=True) for one in pictures if "/copies/" in one.path]):
        return group
    kept, others = references[0], [one for one in pictures if "/copies/" not in one.path]
    why = "its reference folder"
    members = (Member(one, 0.99, one.id == kept.id, kept_because=why, replaced_by=kept) for one in others)
    return Group(kept, tuple(members))


def test_nothing_in_a_reference_folder_can_be_selected(visit, found, tmp_path):
    duplicates, roots = found
    pictures = [replace(one, reference="/copies/" in one.path) for one in duplicates.pictures]
    order = preference_order(pictures, duplicates.keep)
    groups = [with_reference(group) for group in duplicates.groups]
    changed = replace(duplicates, pictures=pictures, order=order, groups=groups)
    write_page(tmp_path / "r.html", changed, roots)
    page = visit(tmp_path / "r.html")
    assert page.locator(".copy.reference").count() >= 2
    assert page.locator(".copy.reference input").count() == 0
    page.locator(".copy.reference .thumb").first.click()
    beside = page.locator(".group:has(.copy.reference)").first
    assert "the one to keep: its reference folder" in beside.locator(".reference .tag").inner_text()
    beside.get_by_role("button").first.click()
    beside.locator(".reference").get_by_role("button").wait_for()
    assert "in a reference folder, stays" in beside.locator(".reference .state").inner_text()
    going = page.evaluate("state.shown.flatMap(going).map((picture) => picture.path)")
    assert going
    assert not [path for path in going if "/copies/" in path]
    alone = "pictures.filter((one) => /script|shapes/.test(one.path)).length"
    assert page.evaluate(alone) == 0, "two references are no copies to be shown"


def test_another_keeper_stays_what_matches_it_goes_and_what_does_not_is_marked(visit):
    page = visit()
    page.select_option("#sort", "count")
    group = page.locator(".group").first
    old = group.locator(".copy.keeper .name").get_attribute("title")
    new = group.locator(".copy").nth(1).locator(".name").get_attribute("title")
    group.locator(".copy").nth(1).get_by_role("button").click()
    assert group.locator(".copy.keeper .name").get_attribute("title") == new
    told = page.evaluate(
        """() => { const group = state.shown[0]; return group.members.map((picture) =>
            [picture.path, selected(picture, group), passes(group.scores.get(picture))]); }"""
    )
    assert told[0][:2] == [new, False]
    assert {path: going for path, going, _ in told}[old] is True
    assert all(going == passed for _, going, passed in told[1:])
    marked = group.locator(".differs").count()
    assert marked == sum(not passed for *_, passed in told)


def test_the_suggestion_is_saved_as_a_list_a_click_changes_it_and_filters_leave_what_meets_them(visit, found):
    page, groups = visit(viewport={"width": 360, "height": 740}), found[0].groups
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "a phone shows all of it"

    def saved_list() -> set[str]:
        with page.expect_download() as saved:
            page.click("#save-list")
        assert saved.value.suggested_filename == "duplicates.txt"
        return set(Path(saved.value.path()).read_text().splitlines())

    suggested = {member.picture.path for group in groups for member in group.others if member.replaced_by}
    assert saved_list() == suggested
    number = page.locator(".copy.going").first.get_attribute("data-picture")
    copy = page.locator(f".copy[data-picture='{number}']")
    copy.locator(".thumb").click()
    assert not copy.locator("input").is_checked()
    assert saved_list() == suggested - {copy.locator(".name").get_attribute("title")}
    page.click("#suggested")
    assert copy.locator("input").is_checked()
    page.select_option("#kind", "exact")
    assert page.locator(".group").count() == sum(all(one.exact for one in group.others) for group in groups)
    page.fill("#words", "no such path")
    assert (page.is_visible("#empty"), page.is_disabled("#save-list")) == (True, True)


def test_the_file_has_all_in_itself_and_its_policy_allows_no_other_script(report):
    text = report.read_text("utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text)
    assert "default-src 'none'; img-src data:" in text
    assert text.count("<script>") == 2


def test_a_thumbnail_is_a_small_webp_in_its_place_and_what_cannot_be_read_is_empty(tmp_path, photo, monkeypatch):
    photo(3, (1501, 997)).save(tmp_path / "large.jpg", quality=90)
    photo(1, (60, 40)).save(tmp_path / "small.png")
    monkeypatch.setattr("diptych.dedupe.report.page._BATCH", 2)
    paths = [str(tmp_path / name) for name in ("large.jpg", "none.jpg", "small.png")]
    large, none, small = map(base64.b64decode, make_thumbnails(paths, PictureLimits(), 2))
    assert none == b""
    assert [Image.open(BytesIO(one)).size for one in (large, small)] == [(SIDE, 128), (60, 40)]
    assert len(large) < 10_000


@pytest.mark.slow
def test_orders_put_first_what_they_say(visit):
    page = visit()
    for order, expression in (
        ("bytes", "-saved(group)"),
        ("unsure", "least(group)"),
        ("count", "-group.members.length"),
        ("path", "group.keeper.path"),
    ):
        page.select_option("#sort", order)
        values = page.evaluate(f"state.shown.map((group) => {expression})")
        assert values == sorted(values)


@pytest.mark.slow
def test_thousands_of_groups_open_fast_and_are_drawn_as_they_are_reached(browser, report, tmp_path):
    text = report.read_text("utf-8")
    head, rest = text.split('id="found">', 1)
    data = json.loads(rest.partition("</script>")[0])
    count = 20_000
    data["pictures"] = [
        (0, f"{n:05d}.jpg", 1000, 640, 480, "JPEG", "2020-01-01", n, False, -1, "", "") for n in range(count)
    ]
    data |= {"keepers": [], "contents": count, "pairs": [(n, n + 1, 0.999) for n in range(0, count, 2)]}
    thumb = text.partition('id="t0">')[2].partition("<")[0]
    body = "".join(f'<script type="text/plain" id="t{n}">{thumb}</script>' for n in range(count))
    tail = "<script>" + text.rpartition("<script>")[2]
    large = tmp_path / "large.html"
    large.write_text(f'{head}id="found">{json.dumps(data)}</script>{body}{tail}', "utf-8")
    page = browser.new_context().new_page()
    page.goto(large.as_uri())
    page.wait_for_selector(".group")
    assert page.inner_text("#summary").startswith("10,000 groups")
    drawn = page.locator(".group").count()
    assert drawn <= 120
    page.mouse.wheel(0, 50_000)
    until(page, f"document.querySelectorAll('.group').length > {drawn}")
    page.context.close()
