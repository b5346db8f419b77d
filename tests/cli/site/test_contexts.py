"""Contexts of sites: written for accounts with a login, never over other contexts."""

from __future__ import annotations

from pathlib import Path

from headwater.cli.contexts import ContextFolder, SavedContext
from headwater.cli.site.contexts import contexts_of, remove_contexts, write_contexts
from headwater.site.topology import Account, Site, Tls, Topology, User

ACCOUNTS = (
    Account("SYS", (User("sys", secret="s"),), is_system=True),
    Account("HASHED", (User("h", password="$2a$11$x"),)),
    Account("ACC", (User("acc", secret="open"),)),
    Account("KEY", (User("k", nkey="U", seed=Path("/k.nk")),)),
)
TOPOLOGY = Topology((Site(name="hub", domain="d", accounts=ACCOUNTS),))


def test_there_is_a_context_for_each_account_with_a_login() -> None:
    found = dict(contexts_of(TOPOLOGY, "p-"))
    assert sorted(found) == ["p-hub", "p-hub-key", "p-hub-sys"]
    hub = found["p-hub"]
    assert (hub.url, hub.user, hub.password, hub.jetstream_domain) == (
        "nats://127.0.0.1:4222",
        "acc",
        "open",
        "d-acc",
    )
    assert (found["p-hub-key"].nkey, found["p-hub-key"].user) == ("/k.nk", "")
    assert found["p-hub-sys"].jetstream_domain == ""


def test_contexts_of_sites_with_certificates_trust_their_authority() -> None:
    tls = Tls(Path("/c"), Path("/k"), Path("/a"), verify=True)
    secured = Topology((Site(name="hub", domain="d", accounts=ACCOUNTS, tls=tls),))
    context = dict(contexts_of(secured))["hub"]
    assert (context.url, context.ca, context.cert, context.key) == (
        "tls://127.0.0.1:4222",
        "/a",
        "/c",
        "/k",
    )


def test_contexts_that_site_did_not_write_stay_unchanged(tmp_path: Path) -> None:
    folder = ContextFolder(tmp_path)
    folder.save("hub", SavedContext(url="nats://mine", description="mine"))
    written, foreign = write_contexts(folder, TOPOLOGY)
    assert (sorted(written), foreign) == (["hub-key", "hub-sys"], ["hub"])
    assert folder.load("hub").url == "nats://mine"
    assert sorted(write_contexts(folder, TOPOLOGY)[0]) == ["hub-key", "hub-sys"]
    assert sorted(remove_contexts(folder, TOPOLOGY)) == ["hub-key", "hub-sys"]
    assert folder.names() == ["hub"]
