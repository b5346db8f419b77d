"""Options that say how to reach a stream."""

from __future__ import annotations

import pytest

from headwater.errors import SettingsError
from headwater.spark.connection_options import DEFAULT_SERVER, origin_of, refuse_unknown


def test_servers_domain_and_credentials_are_taken_from_the_options() -> None:
    origin = origin_of(
        {"server": "nats://a:1, nats://b:2", "domain": "hub", "user": "ann", "tlsCa": "ca.pem"}, "S"
    )
    assert (origin.servers, origin.api_prefix) == (("nats://a:1", "nats://b:2"), "$JS.hub.API")
    assert (origin.stream, origin.user, origin.tls_ca) == ("S", "ann", "ca.pem")


def test_without_options_the_local_server_is_asked() -> None:
    origin = origin_of({}, "S")
    assert (origin.servers, origin.api_prefix) == ((DEFAULT_SERVER,), "$JS.API")


def test_a_prefix_replaces_the_domain() -> None:
    assert origin_of({"domain": "hub", "apiPrefix": "X.API"}, "S").api_prefix == "X.API"


def test_an_unknown_option_is_refused_with_those_that_there_are() -> None:
    refuse_unknown({"SUBJECT": "a", "path": "p"}, ["subject"], ["path"])
    with pytest.raises(SettingsError, match=r"unknown option 'subjekt'; there are subject$"):
        refuse_unknown({"subjekt": "a"}, ["subject"], ["path"])
