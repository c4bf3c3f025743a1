"""The page where there are several collections, in a real browser."""

from __future__ import annotations

import pytest
from pages import PHONE, check_width, says, upload

from diptych.store.sqlite.schema import DATABASE

pytestmark = pytest.mark.browser


def fill(client, name: str, *contents: bytes) -> None:
    files = [("image", (f"{name}-{place}.jpg", data, "image/jpeg")) for place, data in enumerate(contents)]
    assert client.post("/v1/images", files=files, data={"collection": name}).status_code == 201


def names(page) -> list[str]:
    return page.eval_on_selector_all(".tile .name", "nodes => nodes.map(node => node.textContent)")


def test_the_chosen_collection_is_in_the_address_and_every_view_follows_it(visit, several, photo_bytes):
    with several("bags", "shoes") as client:
        fill(client, "bags", *(photo_bytes(seed) for seed in range(3)))
        fill(client, "shoes", photo_bytes(7), photo_bytes(8))
        page = visit(client, "#/collection")
        # No name is asked for and none is "default": the first is shown, and the address says so.
        says(page, "#shown", "3 of 3 pictures")
        assert "?collection=bags#/collection" in page.url
        assert page.get_by_label("Collection", exact=True).and_(page.locator("select")).input_value() == "bags"

        page.focus("#which-name")
        page.keyboard.press("ArrowDown")
        says(page, "#shown", "2 of 2 pictures")
        assert page.evaluate("document.activeElement.id") == "which-name"
        assert "?collection=shoes#/collection" in page.url
        assert names(page) == ["shoes-0.jpg", "shoes-1.jpg"]
        says(page, "#facts", "2 pictures")
        page.wait_for_function(
            "() => [...document.querySelectorAll('.tile img')].every(image => image.naturalWidth > 0)"
        )

        page.set_input_files("#add-file", upload("new.jpg", photo_bytes(9)))
        says(page, "#add-progress", "1 picture added.")
        counts = {one["name"]: one["pictures"] for one in client.get("/v1/collections").json()["data"]}
        assert counts == {"bags": 3, "shoes": 3}
        page.click(".tile .remove >> nth=2")
        page.click("#confirm-yes")
        says(page, "#facts", "2 pictures")

        page.click(".tile a >> nth=1")
        page.wait_for_selector("#second .tag")
        assert page.locator("#second .row").count() == 2
        page.click("#second .pick >> nth=0")
        page.wait_for_selector("#why-dialog .link")
        page.click("#why-close")
        page.wait_for_function("() => !location.hash.includes('why')")  # it steps back
        page.reload()
        page.wait_for_selector("#second .tag")
        assert page.input_value("#which-name") == "shoes"

        # A stored picture belongs to its collection, a file of the visitor's to none.
        page.select_option("#which-name", "bags")
        page.wait_for_selector("#examples:not([hidden])")
        assert page.url.endswith("?collection=bags#/search")
        page.set_input_files("#file", upload("mine.jpg", photo_bytes(1)))
        page.wait_for_selector("#second .move")
        assert page.locator("#second .row").count() == 3
        page.select_option("#which-name", "shoes")
        page.wait_for_function("() => document.querySelectorAll('#second .row .move').length === 2")
        assert page.inner_text("#query-name") == "mine.jpg"
        page.go_back()
        page.wait_for_function("() => document.querySelectorAll('#second .row .move').length === 3")
        assert page.input_value("#which-name") == "bags"

        page.set_viewport_size(PHONE)
        check_width(page)
        page.click("#to-status")
        says(page, "#status-cards", "Collection bags")
        page.select_option("#which-name", "shoes")
        says(page, "#status-cards", "Collection shoes")


@pytest.mark.slow
def test_a_damaged_collection_says_so_and_the_others_are_a_choice_away(visit, several, root, photo_bytes):
    with several("bags", "default") as client:
        fill(client, "default", photo_bytes(1))
    (root / "bags" / DATABASE).write_bytes(b"no database at all" * 400)
    with several() as client:
        page = visit(client)
        says(page, "#facts", "1 picture")
        options = page.eval_on_selector_all("#which-name option", "all => all.map(one => one.textContent)")
        assert options == ["bags (damaged)", "default"]
        assert page.input_value("#which-name") == "default"
        assert "collection" not in page.url
        page.select_option("#which-name", "bags")
        says(page, "#empty-title", "The collection bags is damaged")
        assert "not a database" in page.inner_text("#empty-text")
        page.click("#to-collection")
        says(page, "#none-title", "The collection bags is damaged")
        page.select_option("#which-name", "default")
        says(page, "#shown", "1 of 1 picture")


@pytest.mark.slow
def test_an_address_of_a_collection_that_is_gone_shows_the_only_other_without_a_choice_and_says_so(
    visit, several, photo_bytes
):
    with several("default") as client:
        fill(client, "default", photo_bytes(1))
        page = visit(client, "?collection=hats", refusals=True)
        says(page, "#search-alert", "no collection is called 'hats'; there")
        says(page, "#facts", "1 picture")
        assert page.is_hidden("#which")
        assert "hats" not in page.url


def test_a_collection_is_made_filled_and_removed_only_after_a_word_about_its_pictures(visit, several, photo_bytes):
    with several() as client:
        page = visit(client, refusals=True)
        says(page, "#empty-title", "There is no collection yet")
        says(page, "#empty-text", "in the view Collection")
        assert "/v1/collections" in page.inner_text("#empty-text")
        assert page.is_hidden("#which")
        page.click("#to-collection")
        assert page.is_hidden("#shelf-remove")
        page.fill("#shelf-name", "No Name")
        page.keyboard.press("Enter")
        assert page.evaluate("!document.querySelector('#shelf-name').validity.valid")
        assert client.get("/v1/collections").json()["data"] == []
        for name in ("shoes", "bags"):
            page.fill("#shelf-name", name)
            page.keyboard.press("Enter")
            says(page, "#shelf-status", f"This is {name} now.")
            assert f"?collection={name}#/collection" in page.url
        page.wait_for_function("() => document.querySelector('#which-name').value === 'bags'")
        page.set_input_files("#add-file", upload("a.jpg", photo_bytes(1)))
        says(page, "#add-progress", "1 picture added.")

        says(page, "#shelf-remove", "Remove the collection bags")
        page.click("#shelf-remove")
        assert page.inner_text("#confirm-title") == "Remove the collection bags?"
        assert page.inner_text("#confirm-text").startswith("1 picture and all that")
        page.keyboard.press("Enter")
        page.wait_for_selector("#confirm", state="hidden")
        assert len(client.get("/v1/collections").json()["data"]) == 2

        # Somebody else adds one meanwhile: what goes must be what was said.
        page.click("#shelf-remove")
        fill(client, "bags", photo_bytes(2))
        page.click("#confirm-yes")
        says(page, "#collection-alert", "bags: 2, and 1 were said to go; nothing was removed")
        page.reload()
        says(page, "#shown", "2 of 2 pictures")
        page.click("#shelf-remove")
        page.click("#confirm-yes")
        says(page, "#shelf-status", "bags is gone.")
        assert [one["name"] for one in client.get("/v1/collections").json()["data"]] == ["shoes"]
        says(page, "#shown", "No picture yet.")
        says(page, "#shelf-remove", "Remove the collection shoes")
        page.click("#shelf-remove")
        page.click("#confirm-yes")
        says(page, "#none-title", "There is no collection yet")
        page.set_viewport_size(PHONE)
        check_width(page)
