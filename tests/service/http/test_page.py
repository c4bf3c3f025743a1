"""The web page: from the package's own files, talking to its own host only, fit for a phone and the keyboard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PHONE, REFUSAL, check_names, check_width, says, upload

import diptych

FOLDER = Path(diptych.__file__).parent / "http" / "page"
VIEWS = ["search", "compare", "duplicates", "label", "collection", "status"]
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
DARK, LIGHT = "rgb(21, 21, 20)", "rgb(251, 250, 248)"


def show(page, view: str) -> None:
    page.click(f"#to-{view}")
    page.wait_for_selector(f"#view-{view}:not([hidden])")


def test_every_part_of_the_page_is_reached_from_it_and_served_fresh_under_a_strict_policy(reader):
    found, left = set(), ["/", "/docs"]
    while left:
        path = left.pop()
        answer = reader.get(path)
        assert answer.status_code == 200, path
        assert answer.headers["cache-control"] == "no-cache"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        found.add(path)
        named = re.findall(r'(?:src|href)="(/(?:page|swagger)/[^"]+)"', answer.text)
        named += [f"/page/{name}" for name in re.findall(r'^(?:import|} from) .*?"\./([^"]+)"', answer.text, re.M)]
        left += [path for path in named if path not in found]
    own = {f"/page/{path.name}" for path in FOLDER.iterdir() if path.suffix != ".html"}
    assert found == own | {"/", "/docs", "/swagger/swagger-ui.css", "/swagger/swagger-ui-bundle.js"}
    assert {"/page/app.js", "/page/links.js", "/page/style.css"} <= found
    assert 'href="/docs"' in reader.get("/").text


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_page_names_no_outside_host_and_needs_no_inline_code(path):
    text = path.read_text()
    assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    if path.suffix == ".html":
        assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_the_interface_s_page_lists_every_route_and_asks_them_with_the_key_of_its_visitor(
    visit, serve, looking_only, photo_bytes, scheme
):
    settings, signed_in = looking_only
    with serve(settings) as client:
        client.headers["X-API-Key"] = signed_in["http_credentials"]["password"]
        paths = client.get("/openapi.json").json()["paths"]
        page = visit(client, "docs", foreign="Could not find component", color_scheme=scheme, **signed_in)
        page.wait_for_selector(".opblock")
        shown = page.eval_on_selector_all(".opblock-summary-path", "found => found.map(one => one.dataset.path)")
        assert sorted(shown) == sorted(path for path, methods in paths.items() for _ in methods)
        dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != "rgba(0, 0, 0, 0)"
        assert dark == (scheme == "dark")
        page.click(".opblock-summary-path[data-path='/v1/score']")
        for place, input in enumerate(page.query_selector_all(".opblock-section-request-body input[type=file]")):
            input.set_input_files({"name": f"{place}.jpg", "mimeType": "image/jpeg", "buffer": photo_bytes(place)})
        page.click(".opblock .execute")
        page.wait_for_selector(".live-responses-table .response-col_status:has-text('200')")


@pytest.mark.browser
def test_the_status_says_what_runs_and_keeps_up(visit, client, collection, photo_bytes):
    page = visit(client, "#/status")
    page.wait_for_selector("#status-ready.good")
    info, shown = client.get("/info").json(), page.inner_text("#status-cards")
    for word in (info["model"], info["revision"][:12], info["attention_path"], info["collection"]["directory"]):
        assert word in shown
    assert "\n5\n" in shown
    collection.add(photo_bytes(50), keep_originals=True)
    says(page, "#facts", "6 pictures")


@pytest.mark.slow
@pytest.mark.browser
def test_the_status_says_why_the_service_is_not_ready_and_when_it_is_silent(visit, reader):
    page = visit(reader, "#/search", refusals=True)
    page.wait_for_selector("#example-list a")
    page.route("**/readyz", lambda route: route.fulfill(status=503, json=REFUSAL))
    page.click("#to-status")
    says(page, "#status-ready.bad", "Not now.")
    assert page.is_hidden("#status-alert")
    page.unroute("**/readyz")
    page.route("**/info", lambda route: route.abort())
    says(page, "#status-alert", "The service does not answer")
    assert page.inner_text("#status-ready") == "No answer"
    page.unroute("**/info")
    page.wait_for_selector("#status-ready.good")
    assert page.is_hidden("#status-alert")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_no_view_is_wider_than_the_screen_and_everything_has_a_name(visit, reader, photo_bytes, scheme):
    page = visit(reader, viewport=PHONE, color_scheme=scheme)
    page.wait_for_selector("#example-list a")
    assert page.evaluate(BACKGROUND) == (DARK if scheme == "dark" else LIGHT)
    check_width(page)
    name = "a-name-that-is-much-longer-than-the-screen-of-a-phone-is-wide-and-has-no-place-to-break.jpg"
    page.set_input_files("#file", upload(name, photo_bytes(3)))
    page.wait_for_selector("#second .move")
    check_width(page)
    page.click("#second .pick >> nth=0")
    page.wait_for_selector("#why-dialog .link")
    check_width(page)
    page.click("#why-close")
    for view in VIEWS[1:]:
        show(page, view)
        if view == "compare":
            for slot in "ab":
                page.set_input_files(f"#file-{slot}", upload(name, photo_bytes(2)))
            page.wait_for_selector("#compare-why .link")
        check_width(page)
    page.wait_for_selector(".card")
    check_width(page)
    check_names(page)


@pytest.mark.browser
def test_the_views_are_links_and_the_chosen_theme_is_remembered(visit, reader):
    page = visit(reader, color_scheme="light")
    for view in VIEWS:
        page.focus(f"#to-{view}")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#view-{view}:not([hidden])")
        current = page.eval_on_selector_all("nav [aria-current='page']", "links => links.map(link => link.id)")
        assert current == [f"to-{view}"]
        assert page.locator("main > section:not([hidden])").count() == 1
        assert page.title().startswith(view.capitalize())
    assert page.evaluate(BACKGROUND) == LIGHT
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.reload()
    assert page.evaluate(BACKGROUND) == DARK
    page.wait_for_selector("#view-status:not([hidden])")
    page.click("#theme")
    assert page.evaluate("localStorage.getItem('diptych.theme')") is None
