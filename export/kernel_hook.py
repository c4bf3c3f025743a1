"""Builds the kernel where the distribution is built, if there is a compiler; without one the wheel is pure Python."""

from __future__ import annotations

import runpy
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# By its path: what is being built is not installed yet.
BUILD = runpy.run_path(str(Path(__file__).parent / "diptych_runtime" / "kernel" / "build.py"))


class KernelHook(BuildHookInterface):
    """Puts the library into the wheel, or for an editable installation into the source tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, or say why not."""
        library: Path = BUILD["library_path"]()
        try:
            if version == "editable":
                BUILD["build_library"]()
                return
            self._folder = tempfile.TemporaryDirectory()
            built = BUILD["build_library"](Path(self._folder.name) / library.name)
        except BUILD["KernelError"] as error:
            self.app.display_warning(f"the kernel is left out: {error}")
            return
        build_data["force_include"][str(built)] = f"diptych_runtime/kernel/{library.name}"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder of the build."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
