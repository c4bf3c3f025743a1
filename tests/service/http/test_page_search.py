"""The views of the page that look at pictures, in a real browser: a search, why, and two pictures compared."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pages import REFUSAL, drop, read_rows, says, upload

from diptych import Collection, Scorer
from diptych.bench.demo.collection import draw_scenes
from diptych_runtime.decoder import FORMATS

pytestmark = pytest.mark.browser


def explained(client, query, document) -> dict[str, Any]:
    return client.post("/v1/explain", json={"images": [query, document], "matrix": True}).json()


def strongest(answer: dict[str, Any], side: int, patch: int) -> tuple[float, int]:
    """What a patch of the query (side 0) or of the match (1) looks at most: the share and the other's number."""
    shares = answer["attention"][patch] if side == 0 else [line[patch] for line in answer["attention"]]
    return max((share, -other) for other, share in enumerate(shares))


def told(answer: dict[str, Any], role: str, side: int, patch: int) -> str:
    """What the page must say of a patch, from the whole attention."""
    columns = answer["grid"][1]
    share, other = strongest(answer, side, patch)
    places = [f"row {number // columns + 1}, column {number % columns + 1}" for number in (patch, -other)]
    return f"{role}, {places[0]}: most with {places[1]} ({share * 100:.{1 if share < 0.0995 else 0}f} %)"


def test_a_chosen_file_fills_both_columns(visit, reader, shelf, photo_bytes):
    page, expected = visit(reader), shelf.search(photo_bytes(3))
    page.wait_for_function("() => document.getElementById('drop-formats').textContent.startsWith('JPEG, PNG, WebP, ')")
    assert page.inner_text("#drop-formats").endswith(f" or {FORMATS[-1]}. It is not kept.")
    page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
    page.wait_for_selector("#second .move")
    for column, matches in (("#first", expected.candidates), ("#second", expected.matches)):
        assert read_rows(page, f"{column} .row") == [match.id for match in matches]
    assert page.inner_text("#query-name") == "mine.jpg"
    scores = page.eval_on_selector_all("#second .number", "nodes => nodes.map(node => node.textContent)")
    assert scores == [f"{match.relevance_score:.3f}" for match in expected.matches]
    assert page.locator("#threads path").count() == 5
    page.wait_for_function("() => [...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_a_match_whose_file_changed_or_is_gone_says_so(visit, running, collection, scorer, gallery, photo_bytes):
    first, second, third = (gallery / name for name in ("07.jpg", "08.jpg", "10.jpg"))
    collection.add([first, second, third])
    first.write_bytes(photo_bytes(40))
    second.unlink()
    with running(collection, scorer) as client:
        page = visit(client, refusals=True)  # there are no thumbnails of the two
        page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
        page.wait_for_selector("#second .move")
        found = client.post("/v1/search", files={"image": photo_bytes(3)}, data={"top": 10}).json()["matches"]
        told = {"changed": "file changed", "missing": "file missing", "unchanged": "", None: ""}
        shown = page.eval_on_selector_all(
            "#second .row", "rows => rows.map(row => row.querySelector('.tag')?.textContent ?? '')"
        )
    assert shown == [told[match["file_state"]] for match in found]
    assert sorted(map(str, (match["file_state"] for match in found)))[-3:] == ["changed", "missing", "unchanged"]


@pytest.mark.slow
def test_a_dropped_a_stored_and_a_pasted_picture_are_searched_and_a_bad_file_is_explained(
    visit, reader, shelf, photo_bytes
):
    page = visit(reader, refusals=True)
    page.wait_for_selector("#example-list a")
    drop(page, "#drop", ("dropped.jpg", photo_bytes(1)))
    page.wait_for_selector("#second .move")
    assert page.inner_text("#query-name") == "dropped.jpg"
    drop(page, "body", ("list.jpg", b"this is a shopping list"))
    page.wait_for_selector("#search-alert:not([hidden])")
    said = page.inner_text("#search-alert")
    assert re.search(r"^list\.jpg is not in a format that can be read(.|\n)*Request \w{32}", said)
    assert page.locator("#search-alert button").count() == 0
    assert page.is_hidden("#answer")
    page.focus("#example-list a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#second .tag")
    assert page.is_hidden("#search-alert")
    page.go_back()
    page.wait_for_selector("#search-alert:not([hidden])")
    page.evaluate(
        """(bytes) => { const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([new Uint8Array(bytes)], "image.png", { type: "image/png" }));
            document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true })); }""",
        list(photo_bytes(2)),
    )
    page.wait_for_selector("#second .move")
    assert read_rows(page, "#second .row") == [match.id for match in shelf.search(photo_bytes(2)).matches]
    assert page.inner_text("#query-name") == "image.png"


@pytest.mark.slow
def test_what_did_not_succeed_is_said_and_may_be_asked_again(visit, reader, photo_bytes):
    page = visit(reader, refusals=True)
    page.wait_for_selector("#example-list a")
    page.route("**/v1/search", lambda route: route.abort())
    page.set_input_files("#file", upload("mine.jpg", photo_bytes(3)))
    says(page, "#search-alert", "The service does not answer")
    page.unroute("**/v1/search")
    page.click("#search-alert button")
    page.wait_for_selector("#second .move")
    assert page.is_hidden("#search-alert")
    page.route("**/v1/explain", lambda route: route.fulfill(status=504, json=REFUSAL))
    page.click("#second button >> nth=0")
    says(page, "#why-dialog .alert", "Not now.")
    assert page.inner_text("#why-dialog .alert small") == "Request r-17"
    page.unroute("**/v1/explain")
    page.click("#why-dialog .alert button")
    page.wait_for_selector("#why-dialog .link")
    assert page.is_hidden("#why-dialog .alert")


@pytest.mark.slow
def test_why_frames_the_place_of_one_picture_in_the_other(visit, running, artifact_that_looks, tmp_path):
    (scene,) = draw_scenes(1)
    width, height = scene.size
    scene.save(tmp_path / "scene.png")
    scene.crop((width // 2, 0, width, height)).save(tmp_path / "crop.png")
    looking = Scorer.load(artifact_that_looks, threads=1)
    with Collection.open(tmp_path / "store", looking, create=True) as collection:
        query, other = (collection.add(tmp_path / name)[0].id for name in ("crop.png", "scene.png"))
        with running(collection, looking) as client:
            seen = explained(client, {"id": query}, {"id": other})["evidence"]
            page = visit(client, f"#/search?q={query}&why={other}")
            frame = page.locator("#why-dialog .placement:not(.halo)").bounding_box()
            picture = page.locator("#why-dialog .patches >> nth=1").bounding_box()
            says(page, "#why-dialog .patch-line", "A frame is where one picture lies in the other")
            says(page, "#why-dialog dl", f"{seen['inliers']} of {seen['matches']}")
            page.goto("about:blank")
    assert frame["x"] == pytest.approx(picture["x"] + picture["width"] / 2, abs=8)
    assert frame["width"] == pytest.approx(picture["width"] / 2, abs=8)
    assert frame["height"] == pytest.approx(picture["height"], abs=8)


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
    assert facts[1:] == [answer["verdict"], f"{answer['raw_score']:.2f}", f"{answer['crossing'] * 100:.0f} %"]
    ends = page.eval_on_selector_all("#why-dialog .patches img", "images => images.map(image => image.src)")
    assert [query in ends[0], other in ends[1]] == [True, True]

    (row, column), (rows, columns) = answer["links"][0]["patches"][0], answer["grid"]
    page.focus("#why-dialog .patches >> nth=0")
    says(page, ".patch-line", told(answer, "Query", 0, row * columns + column))
    assert page.locator("#why-dialog .heat").count() == rows * columns
    for key in ("ArrowLeft", "ArrowUp") * max(rows, columns):
        page.keyboard.press(key)
    says(page, ".patch-line", told(answer, "Query", 0, 0))
    page.keyboard.press("ArrowDown")
    says(page, ".patch-line", told(answer, "Query", 0, columns))
    page.keyboard.press("ArrowRight")
    says(page, ".patch-line", told(answer, "Query", 0, columns + 1))

    # A patch that would be told wrongly if rows and columns of the attention were mixed up.
    patch = next(n for n in range(rows * columns) if told(answer, "Match", 0, n) != told(answer, "Match", 1, n))
    box = page.locator("#why-dialog .patches").nth(1).bounding_box()
    width, height = box["width"] / columns, box["height"] / rows
    page.mouse.move(box["x"] + (patch % columns + 0.5) * width, box["y"] + (patch // columns + 0.5) * height)
    says(page, ".patch-line", told(answer, "Match", 1, patch))
    own = page.eval_on_selector("#why-dialog .own", "node => (({ x, y }) => [x, y])(node.getBoundingClientRect())")
    assert own == pytest.approx([box["x"] + patch % columns * width, box["y"] + patch // columns * height], abs=3)

    page.keyboard.press("Escape")
    page.wait_for_selector("#why-dialog", state="hidden")
    page.wait_for_function("() => !location.hash.includes('why')")
    assert page.evaluate("document.activeElement.closest('[data-id]').dataset.id") == other


@pytest.mark.slow
def test_why_has_an_address_of_its_own_for_reloading_and_going_back(visit, reader, shelf):
    query, other = (record.id for record in shelf.list(2))
    page = visit(reader, f"#/search?q={query}&why={other}")
    page.wait_for_selector("#why-dialog .link")
    page.click("#why-close")
    page.wait_for_function("() => !location.hash.includes('why')")
    page.wait_for_selector("#second .move")
    page.click(f'#first [data-id="{other}"] button')
    page.wait_for_selector("#why-dialog .link")
    page.go_back()
    page.wait_for_selector("#why-dialog", state="hidden")
    page.go_forward()
    page.wait_for_selector("#why-dialog .link")
    page.click("#why-search")
    page.wait_for_selector("#why-dialog", state="hidden")
    assert page.evaluate("location.hash") == f"#/search?q={other}"
    page.wait_for_selector(f'#second [data-id="{other}"] .tag')


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("likely", "Probably the same thing"),
        *(
            pytest.param(verdict, words, marks=pytest.mark.slow)
            for verdict, words in (("same", "The same"), ("unsure", "Perhaps the same"), ("different", "Not the same"))
        ),
    ],
)
def test_two_pictures_are_compared_in_the_words_of_the_services_verdict(
    verdict, words, visit, reader, photo_bytes, data_uri
):
    answer = explained(reader, data_uri(photo_bytes(1)), data_uri(photo_bytes(2))) | {"verdict": verdict}
    answer["answers"]["match"]["verdict"] = verdict
    page = visit(reader, "#/compare")
    page.route("**/v1/explain", lambda route: route.fulfill(json=answer))
    drop(page, "#slot-b label", ("second.jpg", photo_bytes(2)))
    says(page, "#name-b", "second.jpg")
    page.set_input_files("#file-a", upload("first.jpg", photo_bytes(1)))
    says(page, "#compare-verdict", words)
    assert f"Probability {answer['relevance_score']:.3f}" in page.inner_text("#compare-verdict")
    assert verdict in page.inner_text("#compare-why .facts-line")
    assert page.locator("#compare-why .link").count() == len(answer["links"])


def test_both_questions_are_answered_the_one_that_was_asked_first(
    visit, running, artifact_that_looks, photo_bytes, data_uri
):
    scorer = Scorer.load(str(artifact_that_looks), provider="cpu", threads=1)
    first, second = photo_bytes(1), photo_bytes(2)
    with running(None, scorer) as client:
        answer = explained(client, data_uri(first), data_uri(second))
        assert (answer["question"], answer["answers"]["copy"]["verdict"]) == ("thing", "different")
        page = visit(client, "#/compare")
        page.set_input_files("#file-a", upload("first.jpg", first))
        page.set_input_files("#file-b", upload("second.jpg", second))
        says(page, "#compare-verdict", "Not a copy")
        shown = page.locator("#compare-verdict > span").all_inner_texts()
        for text, name in zip(shown, ("thing", "copy"), strict=True):
            assert f"{answer['answers'][name]['relevance_score']:.3f}" in text


@pytest.mark.slow
def test_a_file_that_cannot_be_compared_is_named_and_can_be_taken_away(visit, reader, photo_bytes):
    page = visit(reader, "#/compare", refusals=True)
    page.set_input_files("#file-a", upload("good.jpg", photo_bytes(1)))
    page.set_input_files("#file-b", upload("list.jpg", b"this is a shopping list"))
    says(page, "#compare-why .alert", "list.jpg is not in a format that can be read")
    assert page.inner_text("#compare-verdict") == ""
    page.click("#clear-b")
    assert page.is_hidden("#compare-answer")
    page.set_input_files("#file-b", upload("other.jpg", photo_bytes(2)))
    page.wait_for_selector("#compare-verdict b")
    assert page.is_hidden("#compare-why .alert")
