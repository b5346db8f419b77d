"""The file for replicators follows the keys of an AWS profile, as long as the engine owns the store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.loaded_settings import load
from headwater.replication import handed_keys, handover
from headwater.replication.handed_keys import HandedKeys
from headwater.settings import Settings
from waits import until


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    path.write_text("[default]\naws_access_key_id = one\naws_secret_access_key = first\n")
    return path


SECOND = "[default]\naws_access_key_id = two\naws_secret_access_key = second\n"


def opened(tmp_path: Path) -> tuple[Path, Settings]:
    settings = Settings(store=tmp_path / "lake", tables="s3://lake/prod")
    path = tmp_path / handover.NAME
    handover.write(path, settings, "proof")
    return path, settings


async def test_new_keys_of_a_profile_reach_the_file(
    tmp_path: Path,
    credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(handed_keys, "REREAD_S", 0.01)
    path, settings = opened(tmp_path)
    keeping = asyncio.create_task(HandedKeys(path, settings, "proof", lambda: None).keep())
    credentials.write_text(SECOND)
    await until(lambda: load(config=path).settings.tables_access_key_id == "two")
    assert load(config=path).settings.tables_secret_access_key == "second"
    assert load(config=path).settings.replication_secret == "proof"
    assert path.stat().st_mode & 0o777 == 0o600
    await until(lambda: "the AWS profile has new keys" in caplog.text)
    assert "second" not in caplog.text
    keeping.cancel()


def test_an_engine_that_lost_its_store_leaves_the_file(tmp_path: Path, credentials: Path) -> None:
    path, settings = opened(tmp_path)

    def fenced() -> None:
        raise Error("another engine owns the store")

    keys = HandedKeys(path, settings, "proof", fenced)
    credentials.write_text(SECOND)
    with pytest.raises(Error, match="another engine"):
        keys.refresh()
    assert load(config=path).settings.tables_access_key_id == "one"


async def test_without_a_profile_there_is_nothing_to_keep(
    tmp_path: Path, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "three")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "third")
    path, settings = opened(tmp_path)
    await HandedKeys(path, settings, "proof", lambda: None).keep()
    assert load(config=path).settings.tables_access_key_id == "three"
