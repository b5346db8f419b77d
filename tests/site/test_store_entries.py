"""The keys for engines, journal and tables: what they mean, and one sentence for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.site.topology import CLUSTER, SiteStore
from identities import make_operator
from topologies import ACCOUNTS, operator_accounts, topology_of


def one_site(**said: Any) -> dict[str, Any]:
    """Return a file with one site that says this."""
    return {"accounts": ACCOUNTS, "sites": {"hub": said}}


def test_a_site_of_an_old_file_has_one_engine_and_no_journal(tmp_path: Path) -> None:
    hub = topology_of(tmp_path, one_site()).site("hub")
    assert hub.store == SiteStore()
    assert (hub.has_journal, hub.has_journal_servers, hub.copies) == (False, False, 1)


def test_three_nodes_keep_the_journal_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    for said in ({}, {"journal": CLUSTER}):
        hub = topology_of(tmp_path, one_site(nodes=3, **said)).site("hub")
        assert (hub.has_journal, hub.has_journal_servers, hub.copies) == (True, True, 3)
    for journal, copies in (("none", 1), ("s3://lake/journal", 1), ("nats://a,b,c/HUB", 3)):
        hub = topology_of(tmp_path, one_site(nodes=3, journal=journal)).site("hub")
        assert (hub.has_journal, hub.has_journal_servers) == (journal != "none", False)
        assert hub.copies == copies


def test_the_file_can_declare_how_many_copies_a_bucket_keeps(tmp_path: Path) -> None:
    said = {"engines": 2, "journal": "s3://lake/j/", "tables": "file:///srv/lake", "max_replicas": 3}
    hub = topology_of(tmp_path, one_site(**said)).site("hub")
    assert hub.store == SiteStore(2, "s3://lake/j", tables="file:///srv/lake", max_replicas=3)
    assert hub.copies == 3


def test_accounts_of_an_operator_have_no_journal_by_themselves(tmp_path: Path) -> None:
    accounts = operator_accounts(tmp_path, make_operator(tmp_path))
    hub = topology_of(tmp_path, {**accounts, "sites": {"hub": {"nodes": 3}}}).site("hub")
    assert not hub.has_journal
    with pytest.raises(SettingsError, match=r"sites\.hub\.journal: with an operator"):
        topology_of(tmp_path, {**accounts, "sites": {"hub": {"nodes": 3, "journal": "cluster"}}})


@pytest.mark.parametrize(
    ("said", "key", "sentence"),
    [
        ({"engines": 0}, "engines", "must be a whole number between 1 and 9"),
        ({"engines": "two"}, "engines", "must be a whole number between 1 and 9"),
        ({"max_replicas": 9}, "max_replicas", "must be a whole number between 1 and 5"),
        ({"journal": "cluster"}, "journal", "three servers: set nodes: 3"),
        ({"journal": "kafka://x"}, "journal", "'kafka://x' is no journal: use cluster, none, or an address"),
        ({"journal": "x://u:secret@h"}, "journal", "'x://h' is no journal"),
        ({"journal": "nats://"}, "journal", "names no server"),
        ({"journal": "nats://h/a b"}, "journal", "'a b' is not a valid journal name"),
        ({"journal": "s3://"}, "journal", "has no bucket name"),
        ({"journal": "file://lake"}, "journal", "has no bucket name"),
        ({"journal": "file://lake/j"}, "journal", "is no absolute path: write file:///FOLDER"),
        ({"journal": "s3://key:secret@lake"}, "journal", "must not contain credentials"),
        ({"journal_creds": "x"}, "journal_creds", "is for a journal with a nats:// address"),
        ({"journal": "s3://b", "journal_lenient": True}, "journal_lenient", "with a nats:// address"),
        ({"journal": "nats://h", "journal_creds": "x"}, "journal_creds", "there is no file"),
        ({"tables": "/srv/lake"}, "tables", "is not the address of a bucket"),
        ({"tables": "nats://h"}, "tables", "is not the address of a bucket"),
        ({"tables_region": "eu"}, "tables_region", "is for tables in a bucket: set tables"),
    ],
)
def test_each_mistake_is_one_sentence_with_its_key(
    tmp_path: Path, said: dict[str, Any], key: str, sentence: str
) -> None:
    with pytest.raises(SettingsError) as wrong:
        topology_of(tmp_path, one_site(**said))
    text = str(wrong.value)
    assert f"sites.hub.{key}: " in text
    assert sentence in text
    assert "secret" not in text
    assert "\n" not in text


def test_a_site_that_another_engine_serves_has_nothing_to_say_about_it(tmp_path: Path) -> None:
    value = one_site()
    value["sites"]["edge"] = {"engine": "hub", "engines": 2}
    with pytest.raises(
        SettingsError, match=r"sites\.edge\.engines: the engine of another site .*set engines"
    ):
        topology_of(tmp_path, value)


def test_the_account_of_the_journal_is_used_for_nothing_else(tmp_path: Path) -> None:
    value = one_site(nodes=3, accounts={"HEADWATER_JOURNAL": {}})
    with pytest.raises(SettingsError, match="the account HEADWATER_JOURNAL is the journal's"):
        topology_of(tmp_path, value)
