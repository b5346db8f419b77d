"""Tests that need Spark are skipped without Java, and fail in continuous integration."""

from __future__ import annotations

import pytest

from java import missing_java, require_java


def test_without_java_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("CI", raising=False)
    assert "Java 17 is missing" in (missing_java() or "")
    with pytest.raises(pytest.skip.Exception, match="Java 17 is missing"):
        require_java()


def test_continuous_integration_fails_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="CI must run the tests on Spark"):
        require_java()
