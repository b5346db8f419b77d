"""The objects of a real object store: S3 or a compatible one, GCS, Azure, or a local folder."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
from obstore import exceptions as refusals
from obstore.store import from_url

from headwater.disk import DIRECTORY_MODE
from headwater.objects.address import BucketAddress
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import ObjectInfo
from headwater.objects.profile_keys import ProfileKeys

REQUEST_S = 30
CONNECT_S = 5
RETRY_S = 8
"""How long a refused request is retried; callers retry later by themselves."""
PART_BYTES = 8 << 20
_MOST_RETRIES = 6
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_THROTTLED = ("SlowDown", "ServiceUnavailable", "RequestLimitExceeded", "TooManyRequests", "ServerBusy")
_DENIED_STATUS, _THROTTLED_STATUS = ("401", "403"), ("429", "503")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")


class Bucket:
    """Objects below one address of an object store."""

    def __init__(self, address: BucketAddress, *, retry_s: float = RETRY_S) -> None:
        """Open an address; nothing is requested yet."""
        self._address = address
        self._retry_s = retry_s
        with _refusals(address.url, "open"):
            if address.is_local:
                address.local_path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._store: Any = from_url(address.url, **_client(address, retry_s))

    def __repr__(self) -> str:
        return f"Bucket({self._address.url!r})"

    @property
    def address(self) -> str:
        return self._address.url

    @property
    def location(self) -> BucketAddress:
        """Return the address with its endpoint and region."""
        return self._address

    def below(self, prefix: str) -> Bucket:
        return Bucket(self._address.below(prefix), retry_s=self._retry_s)

    def get(self, key: str) -> bytes:
        with self._doing("read", key):
            return bytes(obstore.get(self._store, key).bytes())

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if not length:
            return b""
        with self._doing("read", key):
            return bytes(obstore.get_range(self._store, key, start=start, length=length))

    def get_tail(self, key: str, length: int) -> tuple[bytes, int]:
        if not self._address.reads_tails:
            size = self.head(key).size
            start = max(0, size - length)
            return self.get_range(key, start, size - start), size
        with self._doing("read", key):
            answer = obstore.get(self._store, key, options={"range": {"suffix": length}})
            return bytes(answer.bytes()), int(answer.meta["size"])

    def head(self, key: str) -> ObjectInfo:
        with self._doing("read", key):
            return _info(obstore.head(self._store, key))

    def put(self, key: str, data: bytes) -> str:
        with self._doing("write", key):
            return self._kept(key, obstore.put(self._store, key, data, use_multipart=False))

    def put_file(self, key: str, path: Path) -> None:
        with self._doing("write", key):
            self._kept(key, obstore.put(self._store, key, path, chunk_size=PART_BYTES, max_concurrency=4))

    def put_if_absent(self, key: str, data: bytes) -> str:
        with self._doing("write", key):
            return self._kept(key, obstore.put(self._store, key, data, mode="create"))

    def put_if_match(self, key: str, data: bytes, e_tag: str) -> str:
        if self._address.is_local:
            return self._replace_file(key, data, e_tag)
        with self._doing("write", key):
            return self._kept(key, obstore.put(self._store, key, data, mode={"e_tag": e_tag}))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with self._doing("list", prefix):
            for chunk in obstore.list(self._store, prefix or None):
                yield from map(_info, chunk)

    def delete(self, key: str) -> None:
        try:
            with self._doing("remove", key):
                obstore.delete(self._store, key)
        except ObjectError as error:
            # A folder reports that there was none; S3 does not.
            if error.problem is not Problem.MISSING:
                raise
        if self._address.is_local and self._file(key).parent.is_dir():
            _sync(self._file(key).parent)

    def copy(self, source: str, target: str) -> None:
        with self._doing("copy", source):
            obstore.copy(self._store, source, target)
            self.sync(target)

    def sync(self, key: str) -> None:
        # An object store syncs each write, a folder does not.
        if self._address.is_local:
            path = self._file(key)
            _sync(path)
            while path != self._address.local_path:
                path = path.parent
                _sync(path)

    def _kept(self, key: str, result: Any) -> str:
        """Return the ETag of a durable write."""
        self.sync(key)
        return str(result["e_tag"] or "")

    def _replace_file(self, key: str, data: bytes, e_tag: str) -> str:
        """Replace a file that has this ETag; a lock excludes other callers."""
        lock = os.open(self._address.local_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._doing("write", key):
                if str(obstore.head(self._store, key)["e_tag"]) != e_tag:
                    raise ObjectError(self._url(key), "write", Problem.CHANGED)
            return self.put(key, data)
        finally:
            os.close(lock)

    def _file(self, key: str) -> Path:
        return self._address.local_path / key

    def _url(self, key: str) -> str:
        return f"{self._address.url.rstrip('/')}/{key}"

    def _doing(self, operation: str, key: str) -> Any:
        return _refusals(self._url(key), operation)


def _client(address: BucketAddress, retry_s: float) -> dict[str, Any]:
    """Return the options for requests and their retries."""
    if address.is_local:
        return {}
    config, keys = address.options(), address.profile_keys()
    provided: dict[str, Any] = {}
    if keys is not None:
        config = {name: value for name, value in config.items() if name not in keys.options()}
        provided = {"credential_provider": ProfileKeys(address, keys)}
    return {
        **provided,
        "config": config,
        "client_options": {
            "allow_http": address.allows_http,
            "timeout": timedelta(seconds=REQUEST_S),
            "connect_timeout": timedelta(seconds=CONNECT_S),
        },
        "retry_config": {
            "max_retries": _MOST_RETRIES,
            "retry_timeout": timedelta(seconds=retry_s),
            "backoff": {
                "init_backoff": timedelta(seconds=0.1),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }


@contextmanager
def _refusals(address: str, operation: str) -> Iterator[None]:
    """Run a span in which what the library raises becomes an ObjectError.

    The library's own text is left out, also as a cause: it may contain a signed address.
    """
    try:
        yield
    except ObjectError:
        raise
    except (refusals.BaseError, OSError, ValueError, NotImplementedError) as error:
        problem, detail = problem_of(error)
        raise ObjectError(address, operation, problem, detail) from None


def problem_of(error: Exception) -> tuple[Problem, str]:
    """Return what the library means, and the store's own name for it."""
    text = str(error)
    code, status = _found(_CODE, text), _found(_STATUS, text)
    detail = code or (f"HTTP status {status}" if status else "")
    if code in _NO_BUCKET:
        return Problem.NO_BUCKET, ""
    if isinstance(error, FileNotFoundError):
        return Problem.MISSING, ""
    if isinstance(error, refusals.AlreadyExistsError | FileExistsError):
        return Problem.EXISTS, ""
    if isinstance(error, refusals.PreconditionError | refusals.NotModifiedError) or status in ("409", "412"):
        return Problem.CHANGED, ""
    if isinstance(error, refusals.PermissionDeniedError | refusals.UnauthenticatedError | PermissionError):
        return Problem.DENIED, detail
    if status in _DENIED_STATUS:
        return Problem.DENIED, detail
    if code in _THROTTLED or status in _THROTTLED_STATUS:
        return Problem.THROTTLED, detail
    if isinstance(error, refusals.NotSupportedError | NotImplementedError):
        return Problem.UNSUPPORTED, detail
    if "HTTP error" in text or "error sending request" in text or "timed out" in text:
        return Problem.UNREACHABLE, ""
    return Problem.FAILED, detail or type(error).__name__


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _info(meta: Any) -> ObjectInfo:
    return ObjectInfo(str(meta["path"]), int(meta["size"]), str(meta["e_tag"] or ""))


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
