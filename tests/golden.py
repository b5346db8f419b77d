"""Golden pages, compared to the letter; `WRITE_GOLDEN=1` writes them again, to be reviewed and committed."""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(folder: Path, name: str, text: str) -> None:
    """Compare a text with the page of this name."""
    path = folder / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs"
