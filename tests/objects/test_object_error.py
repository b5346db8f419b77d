"""Each problem of an object store is one sentence."""

from __future__ import annotations

from errno import EIO, ENOENT

from headwater.errors import DiskError
from headwater.objects.object_error import ObjectError, Problem


def test_the_message_says_what_was_done_to_which_object_and_why_not() -> None:
    error = ObjectError("s3://lake/prod/a", "write", Problem.DENIED, "InvalidAccessKeyId")
    assert str(error) == "cannot write s3://lake/prod/a: the credentials were refused (InvalidAccessKeyId)"
    assert error.retryable


def test_callers_of_a_disk_can_treat_it_as_a_disk_error() -> None:
    missing = ObjectError("s3://lake/a", "read", Problem.MISSING)
    assert isinstance(missing, DiskError)
    assert (missing.errno, missing.full) == (ENOENT, False)
    assert ObjectError("s3://lake/a", "read", Problem.UNREACHABLE).errno == EIO


def test_what_is_known_of_one_object_is_no_outage() -> None:
    outages = {problem for problem in Problem if ObjectError("s3://a", "read", problem).is_outage}
    assert outages == set(Problem) - {Problem.MISSING, Problem.EXISTS, Problem.CHANGED}
