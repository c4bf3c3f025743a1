"""The web page: from the package's own files, talking to its own host only, and working in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def test_the_page_and_its_parts_come_from_the_service_under_a_strict_policy(reader):
    page = reader.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    parts = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
    assert {"/page/app.js", "/page/style.css"} <= set(parts)
    for part in parts:
        assert reader.get(part).status_code == 200, part


def test_the_page_names_no_outside_host_and_needs_no_inline_code(reader):
    page, script, style = (reader.get(path).text for path in ("/", "/page/app.js", "/page/style.css"))
    for text in (page, script, style):
        assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", page)


@pytest.fixture
def page(client):
    sync_api = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text) if "Security Policy" in message.text else None)
        page.goto(str(client.base_url))
        yield page
        browser.close()
    assert faults == []


def drop(page, selector: str, name: str, data: bytes) -> None:
    """Drop a file on an element, as a visitor's mouse would."""
    transfer = page.evaluate_handle(
        """([name, bytes]) => { const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" })); return transfer; }""",
        [name, list(data)],
    )
    page.dispatch_event(selector, "drop", {"dataTransfer": transfer})


@pytest.mark.browser
def test_a_chosen_file_fills_both_columns(page, client, collection, photo_bytes):
    expected = collection.search(photo_bytes(3))
    page.set_input_files("#file", {"name": "mine.jpg", "mimeType": "image/jpeg", "buffer": photo_bytes(3)})
    page.wait_for_selector("#second .move")
    for column, matches in (("#first", expected.candidates), ("#second", expected.matches)):
        shown = page.eval_on_selector_all(f"{column} .row", "rows => rows.map(row => row.dataset.id)")
        assert shown == [match.id for match in matches]
    assert page.inner_text("#query-name") == "mine.jpg"
    scores = page.eval_on_selector_all("#second .number", "nodes => nodes.map(node => node.textContent)")
    assert scores == [f"{match.relevance_score:.3f}" for match in expected.matches]
    page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


@pytest.mark.browser
def test_a_dropped_file_and_an_example_are_searched_and_a_bad_file_is_explained(page, photo_bytes):
    drop(page, "#drop", "dropped.jpg", photo_bytes(1))
    page.wait_for_selector("#second .move")
    assert page.inner_text("#query-name") == "dropped.jpg"
    drop(page, "body", "list.jpg", b"this is a shopping list")
    page.wait_for_selector("#alert:not([hidden])")
    assert "not a picture" in page.inner_text("#alert")
    assert page.is_hidden("#answer")
    page.focus("#example-list button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#second .tag")
    assert page.is_hidden("#alert")


@pytest.mark.browser
def test_pictures_dropped_into_the_add_area_join_the_collection(page, collection, photo_bytes):
    page.click("#add summary")
    drop(page, "#add-drop", "new.jpg", photo_bytes(9))
    page.wait_for_selector("#add-progress:has-text('1 picture added')")
    page.wait_for_selector("#facts:has-text('6 pictures')")
    assert collection.list(10)[-1].metadata == {"filename": "new.jpg"}
