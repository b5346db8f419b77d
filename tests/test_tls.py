"""Tests of tls: a context trusts the given authority, and invalid files are OSErrors."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from headwater import tls


def test_without_files_the_context_verifies_with_the_system_s_authorities() -> None:
    context = tls.client_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("name", ["ca", "cert"])
def test_missing_and_invalid_files_are_os_errors(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    for file in ("none.pem", "text.pem"):
        with pytest.raises(OSError):  # noqa: PT011 - ssl's messages differ between versions
            tls.client_context(**{name: str(tmp_path / file)})
