"""What a site's values say of its nodes, addresses and domains."""

from __future__ import annotations

from pathlib import Path

from headwater.site.topology import Account, DeclaredStream, Site, Tls, Topology, User

SITE = Site(name="s", domain="d", accounts=(Account("SYS", is_system=True), Account("A"), Account("B")))
TLS = Tls(Path("c"), Path("k"), Path("a"))


def test_nodes_after_the_first_have_the_next_ports() -> None:
    three = Site(name="s", domain="d", accounts=(), size=3, port=5000)
    assert [(node.name, node.port) for node in three.nodes] == [("s-0", 5000), ("s-1", 5001), ("s-2", 5002)]
    assert [node.name for node in SITE.nodes] == ["s"]
    assert three.client_urls() == ("nats://127.0.0.1:5000", "nats://127.0.0.1:5001", "nats://127.0.0.1:5002")


def test_with_certificates_addresses_say_tls() -> None:
    secured = Site(name="s", domain="d", accounts=(), tls=TLS)
    assert secured.leaf_urls("h") == ("tls://h:7422",)


def test_the_first_account_has_the_sites_domain_and_others_their_own() -> None:
    assert [SITE.domain_of(account.name) for account in SITE.business] == ["d", "d-b"]
    assert SITE.system is not None
    assert SITE.system.name == "SYS"
    assert SITE.account("B") == Account("B")
    assert SITE.account("C") is None


def test_engines_serve_their_own_site_or_several() -> None:
    sites = (
        Site(name="a", domain="a", accounts=(), engine="a"),
        Site(name="b", domain="b", accounts=(), engine="a"),
        Site(name="c", domain="c", accounts=(), engine="c"),
    )
    topology = Topology(sites)
    assert {name: [site.name for site in served] for name, served in topology.engines.items()} == {
        "a": ["a", "b"],
        "c": ["c"],
    }
    assert topology.site("b") is sites[1]


def test_secrets_do_not_show_and_names_do() -> None:
    user = User("u", password="hash", secret="open")
    assert "open" not in repr(user)
    assert "hash" not in repr(user)
    assert Account("A", (user,)).user("u") is user
    assert DeclaredStream("A", {"name": "S"}, "f:1").name == "S"
