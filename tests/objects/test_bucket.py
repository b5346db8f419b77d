"""What a real object store answers when something is wrong, as one sentence each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headwater.bus.free_port import free_port
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from seaweed import SeaweedServer


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)


def problems_of(bucket: Bucket) -> set[Problem]:
    """Return how a bucket refuses a read, a conditional write and a listing."""
    found = set()
    for call in (
        lambda: bucket.get("a"),
        lambda: bucket.put_if_absent("a", b""),
        lambda: list(bucket.list()),
        lambda: bucket.get_range("a", 0, 3),
    ):
        with pytest.raises(ObjectError) as error:
            call()
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 200
        found.add(error.value.problem)
    return found


def test_wrong_credentials_are_said_to_be_wrong(
    seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = seaweed_server.new_bucket()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    assert problems_of(Bucket(address)) == {Problem.DENIED}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    with pytest.raises(ObjectError, match=r"credentials were refused \(InvalidAccessKeyId\)") as error:
        Bucket(address).put("a", b"")
    assert "wrong-secret" not in str(error.value)


def test_a_missing_bucket_is_no_missing_object(seaweed_server: SeaweedServer) -> None:
    bucket = Bucket(BucketAddress("s3://none", seaweed_server.endpoint))
    assert problems_of(bucket) == {Problem.NO_BUCKET}


def test_a_server_that_is_away_is_unreachable() -> None:
    bucket = Bucket(BucketAddress("s3://lake", f"http://127.0.0.1:{free_port()}"), retry_s=0.2)
    assert problems_of(bucket) == {Problem.UNREACHABLE}


class _Busy(BaseHTTPRequestHandler):
    """Answers every request but the last ones with 503 SlowDown."""

    refusals = 0
    asked = 0

    def _answer(self) -> None:
        kind = type(self)
        kind.asked += 1
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        busy = kind.asked <= kind.refusals
        content = b"<Error><Code>SlowDown</Code></Error>" if busy else b"hello"
        self.send_response(503 if busy else 200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 16 Nov 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def busy() -> Iterator[ThreadingHTTPServer]:
    _Busy.asked = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_throttled_request_is_made_again_after_a_while(busy: ThreadingHTTPServer) -> None:
    _Busy.refusals = 2
    bucket = Bucket(BucketAddress("s3://lake", f"http://127.0.0.1:{busy.server_port}"))
    assert bucket.get("a") == b"hello"
    assert _Busy.asked == 3


def test_a_store_that_throttles_on_and_on_is_said_to(busy: ThreadingHTTPServer) -> None:
    _Busy.refusals = 1 << 30
    bucket = Bucket(BucketAddress("s3://lake", f"http://127.0.0.1:{busy.server_port}"), retry_s=0.5)
    with pytest.raises(ObjectError, match=r"asks for fewer requests \(SlowDown\)") as error:
        bucket.get("a")
    assert error.value.problem is Problem.THROTTLED
    assert error.value.is_outage


def test_a_local_folder_is_made_when_it_is_missing(tmp_path: Path) -> None:
    Bucket(BucketAddress(f"file://{tmp_path}/a/b")).put("c/d", b"1")
    assert (tmp_path / "a" / "b" / "c" / "d").read_bytes() == b"1"


def test_a_local_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ObjectError, match="cannot open"):
        Bucket(BucketAddress(f"file://{tmp_path}/file"))
