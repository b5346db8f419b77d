"""The address of a bucket, and the options that an object store client needs to open it.

Credentials come from settings or from the usual places: the environment, a profile of the AWS configuration
files, a web identity, or the metadata service of the machine. Only the profile is read here, again and again
(`profile_keys`). The client libraries read the rest themselves, and refresh what expires.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

from headwater.errors import SettingsError

SCHEMES = ("s3", "gs", "az", "file")
_AZURE_ACCOUNT = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_ACCOUNT_NAME")
_AZURE_ENDPOINT = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_AZURE_EMULATOR = "AZURE_STORAGE_USE_EMULATOR"
_PROFILE_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """Credentials of an S3 server that do not change; never shown."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def options(self) -> dict[str, str]:
        """Return them as options of obstore and delta-rs."""
        said = zip(
            _PROFILE_KEYS, (self.access_key_id, self.secret_access_key, self.session_token), strict=True
        )
        return {name: value for name, value in said if value}


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """Where tables are, and the credentials if they come from settings."""

    url: str
    endpoint: str | None = None
    region: str | None = None
    credentials: StaticCredentials | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in SCHEMES:
            raise SettingsError(
                f"{_shown(self.url)!r} is not the address of a bucket: s3://, gs://, az:// or file://"
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise SettingsError(
                "the address of a bucket must not contain credentials or a query: use the environment"
            )
        if not (parts.path.strip("/") if parts.scheme == "file" else parts.netloc):
            raise SettingsError(f"{self.url!r} has no bucket name")
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise SettingsError(f"the endpoint {self.endpoint!r} is not an http:// or https:// address")
        self._require_fitting(parts.scheme)

    def _require_fitting(self, scheme: str) -> None:
        """Refuse settings that a client of this kind would ignore, and a missing name that it needs."""
        if scheme not in ("gs", "az"):
            return
        if self.endpoint and scheme == "gs":
            raise SettingsError(f"{self.url} takes no endpoint: that is for s3:// and az:// addresses")
        if self.region:
            raise SettingsError(f"{self.url} takes no region: that is for s3:// addresses")
        if self.credentials is not None:
            source = "GOOGLE_APPLICATION_CREDENTIALS" if scheme == "gs" else "AZURE_STORAGE_ACCOUNT_KEY"
            raise SettingsError(f"{self.url} takes no access key of S3: set {source} in the environment")
        if scheme == "az" and _first(os.environ, *_AZURE_ACCOUNT) is None:
            raise SettingsError(f"{self.url} needs the name of its account: set {_AZURE_ACCOUNT[0]}")

    @property
    def scheme(self) -> str:
        """Return the scheme of the object store."""
        return urlsplit(self.url).scheme

    @property
    def is_local(self) -> bool:
        """Return whether the objects are files of this machine."""
        return self.scheme == "file"

    @property
    def local_path(self) -> Path:
        """Return the folder of a local address."""
        assert self.is_local
        return Path(self.url.removeprefix("file://"))

    def below(self, prefix: str) -> BucketAddress:
        """Return the address of a prefix below this one."""
        return replace(self, url=f"{self.url.rstrip('/')}/{prefix.strip('/')}")

    def above(self, levels: int) -> BucketAddress:
        """Return the address this many parts above this one."""
        return replace(self, url=self.url.rsplit("/", levels)[0])

    @property
    def parents(self) -> list[BucketAddress]:
        """Return the addresses that this one is below, nearest first; none above the bucket."""
        scheme, _, rest = self.url.rstrip("/").partition("://")
        parts = rest.split("/")
        least = 1 if scheme != "file" else len(parts)
        return [
            replace(self, url=f"{scheme}://{'/'.join(parts[:n])}")
            for n in range(len(parts) - 1, least - 1, -1)
        ]

    @property
    def delta_url(self) -> str:
        """Return the address for delta-rs, which decodes escapes."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{quote(rest, safe='/$=:._-~')}"

    def options(self) -> dict[str, str]:
        """Return the options of this address for obstore and for delta-rs; they hold secrets."""
        if self.scheme == "az" and (endpoint := self.endpoint or _first(os.environ, *_AZURE_ENDPOINT)):
            return {"azure_storage_endpoint": endpoint}
        if self.scheme != "s3":
            return {}
        found = self.credentials.options() if self.credentials else dict(_profile(os.environ))
        endpoint = self.endpoint or _first(
            os.environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"
        )
        region = self.region or _first(os.environ, "AWS_REGION", "AWS_DEFAULT_REGION")
        if endpoint or "aws_endpoint" in found:
            found["aws_endpoint"] = endpoint or found["aws_endpoint"]
        if region or found.get("aws_endpoint"):
            # Servers other than AWS's accept any region, and the client wants one.
            found["aws_region"] = region or found.get("aws_region") or "us-east-1"
        return found

    def static_credentials(self) -> StaticCredentials | None:
        """Return the credentials that another process needs; None if it finds them as this one does."""
        if self.scheme != "s3" or self.credentials is not None:
            return self.credentials
        said = _profile(os.environ) or {name: os.environ.get(name.upper(), "") for name in _PROFILE_KEYS}
        return _keys_in(said)

    def profile_keys(self) -> StaticCredentials | None:
        """Return the keys that the profile has now; None if credentials do not come from a profile."""
        if self.scheme != "s3" or self.credentials is not None:
            return None
        return _keys_in(_profile(os.environ))

    def delta_options(self) -> dict[str, str]:
        """Return the same for delta-rs, which has its own name for one of them."""
        return self.options() | ({"allow_http": "true"} if self.allows_http else {})

    @property
    def allows_http(self) -> bool:
        """Return whether the endpoint that was asked for is without TLS."""
        if self.scheme == "az" and os.environ.get(_AZURE_EMULATOR, "").lower() in ("true", "1"):
            return True
        options = self.options()
        return options.get("aws_endpoint", options.get("azure_storage_endpoint", "")).startswith("http://")

    @property
    def reads_tails(self) -> bool:
        """Return whether the end of an object can be read without knowing its size; Azure refuses that."""
        return self.scheme != "az"


def _first(environment: Mapping[str, str], *names: str) -> str | None:
    return next((environment[name] for name in names if environment.get(name)), None)


def _profile(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return what the AWS files say, unless the environment has credentials of its own."""
    name = environment.get("AWS_PROFILE") or "default"
    if "AWS_PROFILE" not in environment and "AWS_ACCESS_KEY_ID" in environment:
        return {}
    home = Path(environment.get("HOME", "/nonexistent")) / ".aws"
    secrets = _section(Path(environment.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials")), name)
    section = name if name == "default" else f"profile {name}"
    config = _section(Path(environment.get("AWS_CONFIG_FILE", home / "config")), section)
    if "AWS_PROFILE" in environment and not secrets and not config:
        raise SettingsError(f"AWS_PROFILE is {name!r}, but the AWS files contain no such profile")
    said = {**config, **secrets}
    found = {key: said[key] for key in _PROFILE_KEYS if key in said}
    if "region" in said:
        found["aws_region"] = said["region"]
    if "endpoint_url" in said:
        found["aws_endpoint"] = said["endpoint_url"]
    return found


def _keys_in(said: Mapping[str, str]) -> StaticCredentials | None:
    if not (said.get("aws_access_key_id") and said.get("aws_secret_access_key")):
        return None
    key, secret, token = (said.get(name) or "" for name in _PROFILE_KEYS)
    return StaticCredentials(key, secret, token or None)


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
    except OSError:
        return {}
    except configparser.Error:
        # Its own message would show the line, which may be a secret.
        raise SettingsError(f"{path} is not a valid AWS configuration file") from None
    return dict(parser[name]) if parser.has_section(name) else {}


def _shown(url: str) -> str:
    """Return an address without what may be a secret."""
    return f"{url.partition('://')[0]}://…" if "@" in url or "?" in url else url
