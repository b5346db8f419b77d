"""Addresses of buckets, and the sources of their options."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import SettingsError
from headwater.objects.address import BucketAddress, StaticCredentials


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("lake", "not the address of a bucket"),
        ("ftp://host/lake", "not the address of a bucket"),
        ("s3://", "has no bucket name"),
        ("file:///", "has no bucket name"),
        ("s3://key:secret@lake", "must not contain credentials"),
        ("az://lake?sig=secret", "must not contain credentials"),
        ("ftp://key:secret@host", "not the address of a bucket"),
    ],
)
def test_an_address_that_is_none_is_refused_without_showing_secrets(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as error:
        BucketAddress(url)
    assert "secret" not in str(error.value)


def test_addresses_of_other_clouds_are_taken_with_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert BucketAddress("gs://lake/prod").options() == {}
    with pytest.raises(SettingsError, match="needs the name of its account: set AZURE_STORAGE_ACCOUNT_NAME"):
        BucketAddress("az://lake/prod")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ours")
    assert BucketAddress("az://lake/prod").below("$G").url == "az://lake/prod/$G"


def test_an_azure_address_takes_an_endpoint_from_settings_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ours")
    for name in ("AZURE_STORAGE_ENDPOINT", "AZURE_STORAGE_USE_EMULATOR"):
        monkeypatch.delenv(name, raising=False)
    assert BucketAddress("az://lake").options() == {}
    assert not BucketAddress("az://lake").allows_http
    chosen = BucketAddress("az://lake", "https://ours.blob.example")
    assert chosen.options() == {"azure_storage_endpoint": "https://ours.blob.example"}
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/ours")
    assert BucketAddress("az://lake").delta_options()["azure_storage_endpoint"].endswith("/ours")
    assert BucketAddress("az://lake").allows_http
    assert not chosen.allows_http
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    assert chosen.allows_http


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_settings_of_s3_are_refused_for_other_clouds(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ours")
    if scheme == "gs":
        with pytest.raises(SettingsError, match="takes no endpoint"):
            BucketAddress(f"{scheme}://lake", "http://127.0.0.1:9000")
    with pytest.raises(SettingsError, match="takes no region"):
        BucketAddress(f"{scheme}://lake", region="eu-central-1")
    with pytest.raises(SettingsError, match="takes no access key of S3: set") as error:
        BucketAddress(f"{scheme}://lake", credentials=StaticCredentials("key", "secret"))
    assert "secret" not in str(error.value)


def test_the_addresses_above_another_end_with_the_bucket() -> None:
    address = BucketAddress("s3://lake/a/b", "http://127.0.0.1:9000")
    assert [above.url for above in address.parents] == ["s3://lake/a", "s3://lake"]
    assert {above.endpoint for above in address.parents} == {address.endpoint}
    assert address.above(2).url == "s3://lake"
    assert BucketAddress("file:///a/b").parents == []


def test_an_endpoint_must_be_a_web_address() -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        BucketAddress("s3://lake", "127.0.0.1:9000")


def test_a_prefix_is_added_with_one_slash() -> None:
    assert BucketAddress("s3://lake/prod/").below("/$G/A B").url == "s3://lake/prod/$G/A B"
    assert BucketAddress("s3://lake/prod").below("$G/A B%").delta_url == "s3://lake/prod/$G/A%20B%25"


def test_an_endpoint_comes_with_a_region_and_http_only_where_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert BucketAddress("s3://lake").options() == {}
    assert not BucketAddress("s3://lake").allows_http
    plain = BucketAddress("s3://lake", "http://127.0.0.1:9000")
    assert plain.options() == {"aws_endpoint": "http://127.0.0.1:9000", "aws_region": "us-east-1"}
    assert plain.allows_http
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example")
    monkeypatch.setenv("AWS_REGION", "eu-1")
    assert BucketAddress("s3://lake").options()["aws_endpoint"] == "https://store.example"
    assert BucketAddress("s3://lake", region="eu-2").options()["aws_region"] == "eu-2"
    assert not BucketAddress("s3://lake").allows_http


def test_a_profile_gives_credentials_unless_the_environment_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[ops]\naws_access_key_id = A\naws_secret_access_key = S\n"
    )
    (tmp_path / ".aws" / "config").write_text("[profile ops]\nregion = eu-3\nendpoint_url = http://h:1\n")
    assert BucketAddress("s3://lake").options() == {}
    monkeypatch.setenv("AWS_PROFILE", "ops")
    assert BucketAddress("s3://lake").options() == {
        "aws_access_key_id": "A",
        "aws_secret_access_key": "S",
        "aws_region": "eu-3",
        "aws_endpoint": "http://h:1",
    }
    assert "S" not in repr(BucketAddress("s3://lake")).replace("Bucket", "").replace("S3", "")
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(SettingsError, match="no such profile"):
        BucketAddress("s3://lake").options()
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    assert BucketAddress("s3://lake").options() == {}


def test_a_broken_aws_file_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("my secret key\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "broken"))
    with pytest.raises(SettingsError, match="broken is not a valid AWS") as error:
        BucketAddress("s3://lake").options()
    assert "my secret" not in str(error.value)
    assert error.value.__cause__ is None
