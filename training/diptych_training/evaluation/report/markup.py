"""Elements of HTML and SVG, built as a tree, so that whatever comes from data is escaped wherever it stands."""

import math
from xml.etree.ElementTree import Element, tostring

Content = Element | str | None


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Element:
    """One element: `tag("p", "a < b", class_="note")`.

    Text is escaped when it is written, None is left out. Attributes: an underscore at the end is dropped, others become
    hyphens; numbers are rounded to hundredths. Raises ValueError for a number that is not finite.
    """
    element = Element(name, {_name(key): _value(value) for key, value in attributes.items() if value is not None})
    last = None
    for part in content:
        if isinstance(part, Element):
            element.append(part)
            last = part
        elif part is not None and last is None:
            element.text = (element.text or "") + part
        elif part is not None and last is not None:
            last.tail = (last.tail or "") + part
    return element


def document(root: Element) -> str:
    """The whole page as text."""
    return "<!doctype html>\n" + tostring(root, "unicode", method="html") + "\n"


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise ValueError(f"an attribute must be a finite number, got {value}")
    return f"{value:.2f}".rstrip("0").rstrip(".")
