"""The web page, from the package's own files."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

_FOLDER = Path(__file__).parent.parent / "page"


def install_page(app: FastAPI) -> None:
    """Serve the page at `/` and its parts under `/page/`."""
    app.mount("/page", StaticFiles(directory=_FOLDER), name="page")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(_FOLDER / "index.html", headers={"Cache-Control": "no-cache"})
