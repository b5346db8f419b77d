"""Where Java is, on which Spark runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

JAVA_VERSION = 17
INSTALL_JAVA = "apt-get install -y openjdk-17-jre-headless"
MISSING = f"Java {JAVA_VERSION} is missing, which Spark needs: {INSTALL_JAVA}"


def java_path(environ: Mapping[str, str]) -> str | None:
    """Return the path of the `java` that Spark would start, None if there is none."""
    home = environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java", path=environ.get("PATH"))
    path = Path(home, "bin", "java")
    return str(path) if os.access(path, os.X_OK) else None
