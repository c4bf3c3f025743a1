"""The web page: from the package's own files, talking to its own host only, and working in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diptych
from diptych.http.keys import new_key
from diptych.http.settings import Settings

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FOLDER = Path(diptych.__file__).parent / "http" / "page"
VIEWS = ["search", "compare", "collection", "status"]
PHONE = {"width": 360, "height": 740}
REFUSAL = {"error": {"message": "Not now.", "type": "x", "code": "deadline", "param": None, "request_id": "r-17"}}


def test_every_part_of_the_page_is_reached_from_it_and_served_fresh_under_a_strict_policy(reader):
    found, left = set(), ["/"]
    while left:
        path = left.pop()
        answer = reader.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "no-cache"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        found.add(path)
        named = re.findall(r'(?:src|href)="(/page/[^"]+)"', answer.text)
        named += [f"/page/{name}" for name in re.findall(r'^(?:import|} from) .*?"\./([^"]+)"', answer.text, re.M)]
        left += [path for path in named if path not in found]
    assert found - {"/"} == {f"/page/{path.name}" for path in FOLDER.iterdir()} - {"/page/index.html"}
    assert {"/page/app.js", "/page/links.js", "/page/style.css"} <= found


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_page_names_no_outside_host_and_needs_no_inline_code(path):
    text = path.read_text()
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    if path.suffix == ".html":
        assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield browser
        browser.close()


Visit = Callable[..., Any]


@pytest.fixture
def visit(browser) -> Iterator[Visit]:
    """`visit(client, "#/compare", refusals=True)` opens the page. In the end, nothing may have gone wrong in it but,
    where that is expected, requests that the service refused; and no other host was asked.
    """
    faults: list[str] = []
    contexts = []

    def visit(client, address: str = "", *, refusals: bool = False, **options: Any) -> Any:
        base = str(client.base_url).rstrip("/")
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def heard(message) -> None:
            expected = refusals and message.text.startswith("Failed to load resource")
            if message.type in ("error", "warning") and not expected:
                faults.append(message.text)

        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", heard)
        page.on("request", lambda request: _check_host(request.url, base, faults))
        page.goto(f"{base}/{address}")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert faults == []


def _check_host(url: str, base: str, faults: list[str]) -> None:
    if not url.startswith((base, "blob:", "data:")):
        faults.append(f"asked {url}")


def upload(name: str, data: bytes) -> Any:
    return {"name": name, "mimeType": "image/jpeg", "buffer": data}


def drop(page, selector: str, *files: tuple[str, bytes]) -> None:
    """Drop files on an element, as a visitor's mouse would."""
    transfer = page.evaluate_handle(
        """(files) => { const transfer = new DataTransfer();
            for (const [name, bytes] of files)
              transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
            return transfer; }""",
        [[name, list(data)] for name, data in files],
    )
    page.dispatch_event(selector, "drop", {"dataTransfer": transfer})


def explained(client, query, document) -> dict[str, Any]:
    return client.post("/v1/explain", json={"query": query, "document": document, "matrix": True}).json()


def told(answer: dict[str, Any], role: str, side: int, row: int, column: int) -> str:
    """What the page must say of a patch of the query (side 0) or of the match (1), from the whole attention."""
    columns = answer["grid"][1]
    patch = row * columns + column
    shares = answer["attention"][patch] if side == 0 else [line[patch] for line in answer["attention"]]
    best = max(range(len(shares)), key=lambda other: shares[other])
    return (
        f"{role}, row {row + 1}, column {column + 1}: most with row {best // columns + 1}, column {best % columns + 1} "
    )


def wait_for_text(page, selector: str, text: str) -> None:
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)", arg=[selector, text]
    )


@pytest.mark.browser
def test_a_chosen_file_fills_both_columns(visit, reader, shelf, photo_bytes):
    page, expected = visit(reader), shelf.search(photo_bytes(3))
    page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
    page.wait_for_selector("#second .move")
    for column, matches in (("#first", expected.candidates), ("#second", expected.matches)):
        shown = page.eval_on_selector_all(f"{column} .row", "rows => rows.map(row => row.dataset.id)")
        assert shown == [match.id for match in matches]
    assert page.inner_text("#query-name") == "mine.jpg"
    scores = page.eval_on_selector_all("#second .number", "nodes => nodes.map(node => node.textContent)")
    assert scores == [f"{match.relevance_score:.3f}" for match in expected.matches]
    assert page.locator("#threads path").count() == 5
    page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


@pytest.mark.browser
def test_a_dropped_file_and_an_example_are_searched_and_a_bad_file_is_explained(visit, reader, photo_bytes):
    page = visit(reader, refusals=True)
    page.wait_for_selector("#example-list a")
    drop(page, "#drop", ("dropped.jpg", photo_bytes(1)))
    page.wait_for_selector("#second .move")
    assert page.inner_text("#query-name") == "dropped.jpg"
    drop(page, "body", ("list.jpg", b"this is a shopping list"))
    page.wait_for_selector("#search-alert:not([hidden])")
    assert page.inner_text("#search-alert span").startswith("list.jpg is not a picture")
    assert re.search(r"Request \w{32}", page.inner_text("#search-alert small"))
    assert page.locator("#search-alert button").count() == 0
    assert page.is_hidden("#answer")
    page.focus("#example-list a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#second .tag")
    assert page.is_hidden("#search-alert")
    page.go_back()
    page.wait_for_selector("#search-alert:not([hidden])")


@pytest.mark.browser
def test_a_silent_service_is_said_to_be_silent_and_may_be_asked_again(visit, reader, photo_bytes):
    page = visit(reader, refusals=True)
    page.wait_for_selector("#example-list a")
    page.route("**/v1/search", lambda route: route.abort())
    page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
    wait_for_text(page, "#search-alert", "The service does not answer")
    page.unroute("**/v1/search")
    page.click("#search-alert button")
    page.wait_for_selector("#second .move")
    assert page.is_hidden("#search-alert")


@pytest.mark.browser
def test_why_shows_what_the_network_looked_at_and_follows_keys_and_pointer(visit, reader, shelf):
    query, other = (record.id for record in shelf.list(2))
    answer = explained(reader, {"id": query}, {"id": other})
    page = visit(reader, f"#/search?q={query}")
    button = f'#second [data-id="{other}"] button'
    page.wait_for_selector(button)
    page.focus(button)
    page.keyboard.press("Enter")
    page.wait_for_selector("#why-dialog .link")
    assert page.locator("#why-dialog .link").count() == len(answer["links"]) > 0
    facts = page.eval_on_selector_all("#why-dialog dd", "nodes => nodes.map(node => node.textContent)")
    assert facts[0].startswith(f"{answer['relevance_score']:.3f}")
    assert facts[1:] == [f"{answer['raw_score']:.2f}", f"{answer['crossing'] * 100:.0f} %"]
    ends = page.eval_on_selector_all("#why-dialog .patches img", "images => images.map(image => image.src)")
    assert [query in ends[0], other in ends[1]] == [True, True]

    (row, column), (rows, columns) = answer["links"][0]["query"], answer["grid"]
    page.focus("#why-dialog .patches >> nth=0")
    wait_for_text(page, ".patch-line", told(answer, "Query", 0, row, column))
    assert page.locator("#why-dialog .heat").count() == rows * columns
    for key in ("ArrowLeft", "ArrowUp") * max(rows, columns):
        page.keyboard.press(key)
    wait_for_text(page, ".patch-line", told(answer, "Query", 0, 0, 0))
    page.keyboard.press("ArrowDown")
    wait_for_text(page, ".patch-line", told(answer, "Query", 0, 1, 0))
    page.keyboard.press("ArrowRight")
    wait_for_text(page, ".patch-line", told(answer, "Query", 0, 1, 1))

    box = page.locator("#why-dialog .patches").nth(1).bounding_box()
    x, y = (columns - 0.5) / columns, 0.5 / rows
    page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
    wait_for_text(page, ".patch-line", told(answer, "Match", 1, 0, columns - 1))
    own = page.locator("#why-dialog .own").bounding_box()
    assert abs(own["x"] + own["width"] - box["x"] - box["width"]) < 4
    assert abs(own["y"] - box["y"]) < 4

    page.keyboard.press("Escape")
    page.wait_for_selector("#why-dialog", state="hidden")
    page.wait_for_function("!location.hash.includes('why')")
    assert page.evaluate("document.activeElement.closest('[data-id]').dataset.id") == other


@pytest.mark.browser
def test_why_has_an_address_of_its_own_for_reloading_and_going_back(visit, reader, shelf):
    query, other = (record.id for record in shelf.list(2))
    page = visit(reader, f"#/search?q={query}&why={other}")
    page.wait_for_selector("#why-dialog .link")
    page.click("#why-close")
    page.wait_for_function("!location.hash.includes('why')")
    page.wait_for_selector("#second .move")
    page.click(f'#first [data-id="{other}"] button')
    page.wait_for_selector("#why-dialog .link")
    page.go_back()
    page.wait_for_selector("#why-dialog", state="hidden")
    page.go_forward()
    page.wait_for_selector("#why-dialog .link")
    page.click("#why-search")
    page.wait_for_selector("#why-dialog", state="hidden")
    page.wait_for_selector(f'#second [data-id="{other}"] .tag')


@pytest.mark.browser
def test_why_that_came_too_late_says_so_and_may_be_asked_again(visit, reader, photo_bytes):
    page = visit(reader, refusals=True)
    page.route("**/v1/explain", lambda route: route.fulfill(status=504, json=REFUSAL))
    page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
    page.click("#second .pick >> nth=0")
    wait_for_text(page, "#why-dialog .alert", "Not now.")
    assert page.inner_text("#why-dialog .alert small") == "Request r-17"
    page.unroute("**/v1/explain")
    page.click("#why-dialog .alert button")
    page.wait_for_selector("#why-dialog .link")
    assert page.is_hidden("#why-dialog .alert")


@pytest.mark.browser
def test_two_pictures_are_compared_against_the_chosen_threshold(visit, reader, photo_bytes, data_uri):
    answer = explained(reader, data_uri(photo_bytes(1)), data_uri(photo_bytes(2)))
    score = answer["relevance_score"]
    # One threshold below the score and one above it, whatever a model with random weights says.
    page = visit(reader, "#/status")
    info = reader.get("/info").json() | {"thresholds": {"0.01": score - 1e-3, "0.001": score + 1e-3}}
    page.route("**/info", lambda route: route.fulfill(json=info))
    page.reload()
    page.click("#to-compare")
    drop(page, "#slot-b label", ("second.jpg", photo_bytes(2)))
    wait_for_text(page, "#name-b", "second.jpg")
    page.set_input_files("#file-a", upload("first.jpg", photo_bytes(1)))
    wait_for_text(page, "#compare-verdict", "Not the same thing")
    assert f"Probability {score:.3f}" in page.inner_text("#compare-verdict")
    assert "1 in 1,000" in page.inner_text("#compare-verdict")
    page.check("#strict-list input[value='0.01']")
    assert page.inner_text("#compare-verdict").startswith("The same thing")
    marks = page.eval_on_selector_all("#strict-list label", "labels => labels.map(label => label.lastChild.className)")
    assert marks == ["passes", "fails"]
    assert page.locator("#compare-why .link").count() == len(answer["links"])
    page.reload()
    page.wait_for_selector("#strict-list input[value='0.01']:checked")


@pytest.mark.browser
def test_a_file_that_cannot_be_compared_is_named_and_can_be_taken_away(visit, reader, photo_bytes):
    page = visit(reader, "#/compare", refusals=True)
    page.set_input_files("#file-a", upload("good.jpg", photo_bytes(1)))
    page.set_input_files("#file-b", upload("list.jpg", b"this is a shopping list"))
    wait_for_text(page, "#compare-why .alert", "list.jpg is not a picture")
    assert page.inner_text("#compare-verdict") == ""
    page.click("#clear-b")
    assert page.is_hidden("#compare-answer")
    page.set_input_files("#file-b", upload("other.jpg", photo_bytes(2)))
    page.wait_for_selector("#compare-verdict b")
    assert page.is_hidden("#compare-why .alert")


@pytest.mark.browser
def test_the_collection_is_browsed_page_by_page(visit, client, collection, photo_bytes):
    for seed in range(100, 146):
        collection.add(photo_bytes(seed, (24, 16)), metadata={"filename": f"{seed}.jpg"}, keep_bytes=True)
    page = visit(client, "#/collection")
    wait_for_text(page, "#shown", "48 of 51 pictures")
    page.click("#more")
    wait_for_text(page, "#shown", "51 of 51 pictures")
    assert page.is_hidden("#more")
    shown = page.eval_on_selector_all(".tile", "tiles => tiles.map(tile => tile.dataset.id)")
    assert shown == [record.id for record in collection.list(100)]
    page.click(".tile a >> nth=1")
    page.wait_for_selector("#second .tag")


@pytest.mark.browser
def test_of_a_batch_with_a_bad_picture_the_good_ones_join_and_the_bad_one_is_named(
    visit, client, collection, photo_bytes
):
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    files = [("new.jpg", photo_bytes(9)), ("list.jpg", b"this is a shopping list"), ("old.jpg", photo_bytes(0))]
    drop(page, "#view-collection", *files)
    wait_for_text(page, "#add-progress", "1 picture added, 1 there already, 1 refused.")
    assert re.match(r"list\.jpg is not a picture.* Request \w{32}", page.inner_text("#add-errors li"))
    wait_for_text(page, "#facts", "6 pictures")
    page.wait_for_selector(".tile >> nth=5")
    assert collection.list(10)[-1].metadata == {"filename": "new.jpg"}


@pytest.mark.browser
def test_no_request_brings_more_pictures_than_the_service_takes(visit, serve, collection, photo_bytes):
    sizes = []
    with serve(Settings(pictures=2)) as client:
        page = visit(client, "#/collection")
        page.on(
            "request",
            lambda asked: sizes.append(asked.post_data_buffer.count(b"filename=")) if asked.method == "POST" else None,
        )
        page.wait_for_selector(".tile >> nth=4")
        page.set_input_files("#add-file", [upload(f"{seed}.jpg", photo_bytes(seed)) for seed in range(20, 25)])
        wait_for_text(page, "#add-progress", "5 pictures added.")
    assert sizes == [2, 2, 1]
    assert collection.stats()["pictures"] == 10


@pytest.mark.browser
def test_a_folder_is_added_with_what_is_below_it_and_without_what_is_no_picture(
    visit, client, collection, photo_bytes, tmp_path
):
    folder = tmp_path / "photos"
    (folder / "below").mkdir(parents=True)
    (folder / "a.jpg").write_bytes(photo_bytes(31))
    (folder / "below" / "b.jpg").write_bytes(photo_bytes(32))
    (folder / "below" / "bad.jpg").write_bytes(b"no picture")
    (folder / "notes.txt").write_text("no picture either")
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    page.set_input_files("#add-folder", folder)
    wait_for_text(page, "#add-progress", "2 pictures added, 1 refused. 1 file left out: no pictures.")
    assert page.inner_text("#add-errors li").startswith("photos/below/bad.jpg ")
    assert {record.metadata.get("filename") for record in collection.list(10)} >= {"a.jpg", "b.jpg"}


@pytest.mark.browser
def test_adding_can_be_cancelled_and_taken_up_again(visit, client, photo_bytes):
    page = visit(client, "#/collection", refusals=True)
    page.wait_for_selector(".tile >> nth=4")
    page.route("**/v1/images", lambda route: None)  # never answered
    page.set_input_files("#add-file", upload("new.jpg", photo_bytes(40)))
    page.click("#add-cancel")
    wait_for_text(page, "#add-progress", "0 pictures added. Cancelled with 1 picture to go.")
    page.unroute("**/v1/images")
    page.click("#add-again")
    wait_for_text(page, "#add-progress", "1 picture added.")


@pytest.mark.browser
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
    wait_for_text(page, "#facts", "4 pictures")
    assert [record.id for record in collection.list(1)] == [second.id]
    assert page.evaluate("document.activeElement.closest('.tile').dataset.id") == second.id


@pytest.mark.browser
def test_a_read_only_key_is_told_kindly_that_it_changes_nothing(visit, serve, collection, photo_bytes):
    secret, key = new_key("reader", "read")
    with serve(Settings(keys=(key,))) as client:
        login = {"http_credentials": {"username": "any", "password": secret}}
        page = visit(client, "#/collection", refusals=True, **login)
        page.wait_for_selector(".tile >> nth=4")
        page.set_input_files("#add-file", upload("new.jpg", photo_bytes(40)))
        wait_for_text(page, "#collection-alert", "may look but not change")
        assert page.is_hidden("#add")
        assert page.is_hidden(".tile .remove >> nth=0")
    assert collection.stats()["pictures"] == 5


@pytest.mark.browser
def test_without_a_collection_the_page_says_so_and_still_compares(visit, serve, photo_bytes):
    with serve(stored=False) as client:
        page = visit(client)
        wait_for_text(page, "#empty-title", "There is no collection here")
        page.click("#to-collection")
        page.wait_for_selector("#collection-none:not([hidden])")
        assert page.is_hidden("#collection-some")
        page.click("#collection-none a")
        for slot in "ab":
            page.set_input_files(f"#file-{slot}", upload(f"{slot}.jpg", photo_bytes(1)))
        page.wait_for_selector("#compare-verdict b")


@pytest.mark.browser
def test_the_status_says_what_runs_and_keeps_up(visit, client, collection, photo_bytes):
    page = visit(client, "#/status")
    page.wait_for_selector("#status-ready.good")
    info, shown = client.get("/info").json(), page.inner_text("#status-cards")
    for word in (info["model"], info["revision"][:12], info["attention_path"], info["collection"]["directory"]):
        assert word in shown
    assert "\n5\n" in shown
    collection.add(photo_bytes(50), keep_bytes=True)
    wait_for_text(page, "#facts", "6 pictures")


@pytest.mark.browser
def test_the_status_says_why_the_service_is_not_ready_and_when_it_is_silent(visit, reader):
    page = visit(reader, "#/search", refusals=True)
    page.wait_for_selector("#example-list a")
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=REFUSAL))
    page.click("#to-status")
    wait_for_text(page, "#status-ready.bad", "Not now.")
    assert page.is_hidden("#status-alert")
    page.unroute("**/readyz")
    page.route("**/info", lambda route: route.abort())
    wait_for_text(page, "#status-alert", "The service does not answer")
    assert page.inner_text("#status-ready") == "No answer"
    page.unroute("**/info")
    page.wait_for_selector("#status-ready.good")
    assert page.is_hidden("#status-alert")


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_no_view_is_wider_than_the_screen(visit, reader, photo_bytes, scheme):
    page = visit(reader, viewport=PHONE, color_scheme=scheme)
    page.wait_for_selector("#example-list a")

    def fits() -> None:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
        assert page.evaluate(
            "[...document.querySelectorAll('dialog[open]')].every(d => d.scrollWidth <= d.clientWidth)"
        )

    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(21, 21, 20)"
    assert dark == (scheme == "dark")
    fits()
    name = "a-name-that-is-much-longer-than-the-screen-of-a-phone-is-wide-and-has-no-place-to-break.jpg"
    page.set_input_files("#file", upload(name, photo_bytes(3)))
    page.wait_for_selector("#second .move")
    fits()
    page.click("#second .pick >> nth=0")
    page.wait_for_selector("#why-dialog .link")
    fits()
    page.click("#why-close")
    for view in VIEWS[1:]:
        page.click(f"#to-{view}")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
        if view == "compare":
            for slot in "ab":
                page.set_input_files(f"#file-{slot}", upload(name, photo_bytes(2)))
            page.wait_for_selector("#compare-why .link")
        fits()
    page.wait_for_selector(".card")
    fits()


@pytest.mark.browser
def test_the_views_are_links_and_the_chosen_theme_is_remembered(visit, reader):
    page = visit(reader, color_scheme="light")
    for view in VIEWS:
        page.focus(f"#to-{view}")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
        assert page.eval_on_selector_all("nav [aria-current='page']", "links => links.map(link => link.id)") == [
            f"to-{view}"
        ]
        assert page.locator("main > section:not([hidden])").count() == 1
        assert page.title().startswith(view.capitalize())
    background = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(background) == "rgb(251, 250, 248)"
    page.click("#theme")
    assert page.evaluate(background) == "rgb(21, 21, 20)"
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.reload()
    assert page.evaluate(background) == "rgb(21, 21, 20)"
    page.wait_for_selector("#view-status:not([hidden])")
    page.click("#theme")
    assert page.evaluate("localStorage.getItem('diptych.theme')") is None


@pytest.mark.browser
def test_every_control_and_every_picture_has_a_name(visit, reader, shelf):
    query, other = (record.id for record in shelf.list(2))
    page = visit(reader, f"#/search?q={query}&why={other}")
    page.wait_for_selector("#why-dialog .link")
    page.click("#why-close")
    for view in VIEWS:
        page.click(f"#to-{view}")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
    page.wait_for_selector(".card")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, progress, dialog, img, fieldset")].filter((node) =>
            node.tagName === "IMG" ? !node.hasAttribute("alt")
            : !(node.ariaLabel || node.getAttribute("aria-labelledby") || node.labels?.length || node.textContent.trim())
          ).filter((node) => node.id !== "empty-link").map((node) => node.outerHTML)"""
    )
    assert nameless == []
    assert json.loads(
        page.evaluate("JSON.stringify([...document.querySelectorAll('[id]')].map(n => n.id))")
    ) == page.evaluate("[...new Set([...document.querySelectorAll('[id]')].map(n => n.id))]")
