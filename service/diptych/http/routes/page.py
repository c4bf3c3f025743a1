"""The web page and the page of the OpenAPI document, from files of this package and of fastapi-offline."""

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
    """Serve the page at `/`, the interface's at `/docs`, and their parts under `/page/` and `/swagger/`.

    FastAPI's own `/docs` has a script in its text, which our policy forbids, and loads Swagger UI from another host.
    """
    app.mount("/page", _Parts(directory=_FOLDER), name="page")
    app.mount("/swagger", _Parts(packages=[("fastapi_offline", "static")]), name="swagger")

    @app.get("/", include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(_FOLDER / "index.html", headers=_FRESH)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> FileResponse:
        return FileResponse(_FOLDER / "docs.html", headers=_FRESH)
