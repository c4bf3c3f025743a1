"""The examples of docstrings, lines that begin with `>>>`, as code: Markdown would take them for quotations."""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^ *>>> .*(?:\n *(?:>>>|\.\.\.).*)*$", re.MULTILINE)


class Doctests(Extension):
    """Puts each example into a block of its own."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute that was read."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
