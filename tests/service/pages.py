"""What the tests of the page ask of every view."""

from __future__ import annotations

from typing import Any

REFUSAL = {"error": {"message": "Not now.", "type": "x", "code": "deadline", "param": None, "request_id": "r-17"}}
PHONE = {"width": 360, "height": 740}
NAMELESS = """() => [...document.querySelectorAll("a, button, input, select, progress, dialog, img, fieldset")]
  .filter((node) => node.id !== "empty-link") // hidden, and named when it is shown
  .filter((node) => node.tagName === "IMG" ? !node.hasAttribute("alt") : !(
    node.ariaLabel || node.hasAttribute("aria-labelledby") || node.labels?.length || node.textContent.trim()))
  .map((node) => node.outerHTML)"""


def check_width(page: Any) -> None:
    """Check that neither the page nor an open dialog is wider than its place."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
    assert page.evaluate("[...document.querySelectorAll('dialog[open]')].every(d => d.scrollWidth <= d.clientWidth)")


def check_names(page: Any) -> None:
    """Check that every control and every picture has a name, and that no two elements have one id."""
    assert page.evaluate(NAMELESS) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))


def read_rows(page: Any, selector: str) -> list[str]:
    """The ids of the pictures that elements show, in their order."""
    return page.eval_on_selector_all(selector, "rows => rows.map(row => row.dataset.id)")


def upload(name: str, data: bytes) -> Any:
    """A file as a browser's visitor chooses it."""
    return {"name": name, "mimeType": "image/jpeg", "buffer": data}


def drop(page: Any, selector: str, *files: tuple[str, bytes]) -> None:
    """Drop files on an element, as a visitor's mouse would."""
    transfer = page.evaluate_handle(
        """(files) => { const transfer = new DataTransfer();
            for (const [name, bytes] of files)
              transfer.items.add(new File([new Uint8Array(bytes)], name, { type: "image/jpeg" }));
            return transfer; }""",
        [[name, list(data)] for name, data in files],
    )
    page.dispatch_event(selector, "drop", {"dataTransfer": transfer})


def says(page: Any, selector: str, text: str) -> None:
    """Wait until an element has the text."""
    page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.textContent.includes(text)", arg=[selector, text]
    )
