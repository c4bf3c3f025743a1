"""The web page, from the package's own files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

_FOLDER = Path(__file__).parent.parent / "page"
# A browser asks each time whether its copy still holds: after an update, old and new modules would not fit together.
_FRESH = {"Cache-Control": "no-cache"}


class _Parts(StaticFiles):
    def file_response(self, full_path: str | os.PathLike[str], *rest: Any, **options: Any) -> Response:
        response = super().file_response(full_path, *rest, **options)
        response.headers.update(_FRESH)
        return response


def install_page(app: FastAPI) -> None:
    """Serve the page at `/` and its parts under `/page/`."""
    app.mount("/page", _Parts(directory=_FOLDER), name="page")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(_FOLDER / "index.html", headers=_FRESH)
