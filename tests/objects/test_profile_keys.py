"""The keys of a profile can be rotated while a client has the bucket open."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.objects import profile_keys
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.profile_keys import ProfileKeys
from seaweed import ACCESS_KEY, SECRET_KEY, SeaweedServer


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return path


def profile(key: str, secret: str) -> str:
    return f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"


def test_an_open_client_uses_the_keys_that_the_profile_has_now(
    seaweed_server: SeaweedServer, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_keys, "REREAD_S", 0.0)
    address = seaweed_server.new_bucket()
    credentials.write_text(profile(ACCESS_KEY, "an-old-secret"))
    bucket = Bucket(address)
    with pytest.raises(ObjectError) as error:
        bucket.put("a", b"1")
    assert error.value.problem is Problem.DENIED
    credentials.write_text(profile(ACCESS_KEY, SECRET_KEY))
    bucket.put("a", b"1")
    assert bucket.get("a") == b"1"


def test_a_profile_that_cannot_be_read_leaves_the_last_keys(credentials: Path) -> None:
    credentials.write_text(profile("one", "first-secret"))
    address = BucketAddress("s3://lake")
    known = address.profile_keys()
    assert known is not None
    keys = ProfileKeys(address, known)
    for text in ("[default\nthis is not", "", "[other]\n"):
        credentials.write_text(text)
        assert keys()["access_key_id"] == "one"
    credentials.write_text(profile("two", "second-secret"))
    assert keys()["access_key_id"] == "two"
    assert keys()["secret_access_key"] == "second-secret"


def test_keys_of_settings_and_of_the_environment_are_not_a_profile_s(
    credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials.write_text(profile("one", "secret"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "three")
    assert BucketAddress("s3://lake").profile_keys() is None
