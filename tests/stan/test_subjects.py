"""Tests of stan.subjects."""

from __future__ import annotations

from dataclasses import fields

from headwater.stan.subjects import Subjects


def test_the_subjects_are_those_that_permissions_of_users_name() -> None:
    subjects = Subjects("c", "_INBOX.x")
    names = [name for name in dir(subjects) if not name.startswith("_")]
    others = {
        name: getattr(subjects, name) for name in names if name not in {f.name for f in fields(subjects)}
    }
    assert others == {
        "connect": "_STAN.discover.c",
        "pings": "_STAN.discover.c.pings",
        "publish": "_STAN.pub.c",
        "subscribe": "_STAN.sub.c",
        "unsubscribe": "_STAN.unsub.c",
        "close_subscription": "_STAN.subclose.c",
        "close": "_STAN.close.c",
        "partitions": "_STAN.part.c",
        "acks": "_INBOX.x.a.",
        "answers": "_INBOX.x.p.",
    }
