"""The view of the page that changes the collection, in a real browser."""

from __future__ import annotations

import re

import pytest
from pages import drop, read_rows, says, upload

from diptych.http.settings import Settings

pytestmark = pytest.mark.browser


def test_the_collection_is_browsed_page_by_page(visit, client, collection, photo_bytes):
    for seed in range(100, 146):
        collection.add(photo_bytes(seed, (24, 16)), metadata={"filename": f"{seed}.jpg"}, keep_originals=True)
    page = visit(client, "#/collection")
    says(page, "#shown", "48 of 51 pictures")
    page.click("#more")
    says(page, "#shown", "51 of 51 pictures")
    assert page.is_hidden("#more")
    assert read_rows(page, ".tile") == [record.id for record in collection.list(100)]
    page.click(".tile a >> nth=1")
    page.wait_for_selector("#second .tag")


def test_of_a_batch_with_a_bad_picture_the_good_ones_join_and_the_bad_one_is_named(
    visit, client, collection, photo_bytes
):
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    files = [("new.jpg", photo_bytes(9)), ("list.jpg", b"this is a shopping list"), ("old.jpg", photo_bytes(0))]
    drop(page, "#view-collection", *files)
    says(page, "#add-progress", "1 picture added, 1 already there, 1 refused.")
    assert re.match(
        r"list\.jpg is not in a format that can be read.* Request \w{32}", page.inner_text("#add-errors li")
    )
    says(page, "#facts", "6 pictures")
    page.wait_for_selector(".tile >> nth=5")
    assert collection.list(10)[-1].metadata == {"filename": "new.jpg"}


@pytest.mark.slow
def test_no_request_brings_more_pictures_than_the_service_takes(visit, serve, collection, photo_bytes):
    with serve(Settings(pictures=2)) as client:
        page = visit(client, "#/collection")
        page.wait_for_selector(".tile >> nth=4")
        page.evaluate(
            """() => { const [real, sizes] = [fetch, (window.sizes = [])];
                window.fetch = (path, options) => {
                  if (options?.method === "POST") sizes.push(options.body.getAll("images").length);
                  return real(path, options); }; }"""
        )
        page.set_input_files("#add-file", [upload(f"{seed}.jpg", photo_bytes(seed)) for seed in range(20, 25)])
        says(page, "#add-progress", "5 pictures added.")
        assert page.evaluate("window.sizes") == [2, 2, 1]
    assert collection.stats()["pictures"] == 10


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chosen", "dropped"])
def test_a_folder_is_added_with_what_is_below_it_and_without_what_is_no_picture(
    way, visit, client, collection, photo_bytes, tmp_path
):
    folder = tmp_path / "photos"
    (folder / "below").mkdir(parents=True)
    (folder / "a.jpg").write_bytes(photo_bytes(31))
    (folder / "below" / "b.jpg").write_bytes(photo_bytes(32))
    (folder / "below" / "bad.jpg").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("no picture either")
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    if way == "chosen":
        page.set_input_files("#add-folder", folder)
    else:  # by the browser itself: a script cannot make a folder
        devtools = page.context.new_cdp_session(page)
        data = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 200, "y": 200, "data": data})
    says(page, "#add-progress", "2 pictures added, 1 refused. 1 file skipped: not pictures.")
    assert page.inner_text("#add-errors li").startswith("photos/below/bad.jpg ")
    assert {record.metadata.get("filename") for record in collection.list(10)} >= {"a.jpg", "b.jpg"}


@pytest.mark.slow
def test_adding_can_be_cancelled_and_taken_up_again(visit, client, collection, photo_bytes):
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    held = []
    page.route("**/v1/images", lambda route: held.append(route))
    page.set_input_files("#add-file", upload("new.jpg", photo_bytes(40)))
    page.click("#add-cancel")
    says(page, "#add-progress", "0 pictures added. Cancelled with 1 picture to go.")
    for route in held:
        route.abort()
    page.unroute("**/v1/images")
    page.click("#add-again")
    says(page, "#add-progress", "1 picture added.")
    assert [record.metadata.get("filename") for record in collection.list(10)][-1] == "new.jpg"


def test_a_picture_is_removed_only_after_a_word_about_its_file(visit, client, collection):
    first, second = collection.list(2)
    page = visit(client, "#/collection")
    page.click(f'[data-id="{first.id}"] .remove')
    assert "photo-0.jpg" in page.inner_text("#confirm-title")
    assert "indexed folder" in re.sub(r"\s+", " ", page.inner_text("#confirm-text"))
    assert page.evaluate("document.activeElement.id") == "confirm-no"
    page.keyboard.press("Enter")
    page.wait_for_selector("#confirm", state="hidden")
    assert collection.stats()["pictures"] == 5
    page.click(f'[data-id="{first.id}"] .remove')
    page.click("#confirm-yes")
    says(page, "#facts", "4 pictures")
    assert [record.id for record in collection.list(1)] == [second.id]
    assert page.evaluate("document.activeElement.closest('.tile').dataset.id") == second.id


@pytest.mark.slow
def test_a_read_only_key_is_told_kindly_that_it_changes_nothing(visit, serve, looking_only, collection, photo_bytes):
    settings, login = looking_only
    with serve(settings) as client:
        page = visit(client, "#/label", refusals=True, **login)
        page.wait_for_selector("#label-pictures img")
        pair = page.get_attribute("#label-pictures", "data-pair")
        page.keyboard.press("s")
        page.wait_for_selector("#label-alert:not([hidden])")
        assert page.get_attribute("#label-pictures", "data-pair") == pair
        page = visit(client, "#/collection", refusals=True, **login)
        page.wait_for_selector(".tile >> nth=4")
        page.set_input_files("#add-file", upload("new.jpg", photo_bytes(40)))
        says(page, "#collection-alert", "can look but not change")
        assert page.is_hidden("#add")
        assert page.is_hidden(".tile .remove >> nth=0")
    assert collection.stats()["pictures"] == 5
    assert collection.labels() == []


@pytest.mark.slow
def test_without_a_collection_the_page_says_so_and_still_compares(visit, serve, photo_bytes):
    with serve(stored=False) as client:
        page = visit(client)
        says(page, "#empty-title", "There is no collection here")
        page.click("#to-collection")
        page.wait_for_selector("#collection-none:not([hidden])")
        assert page.is_hidden("#collection-some")
        page.click("#collection-none a")
        for slot in "ab":
            page.set_input_files(f"#file-{slot}", upload(f"{slot}.jpg", photo_bytes(1)))
        page.wait_for_selector("#compare-verdict b")
