"""The file that an engine leaves for its replicators: whole, private, and enough to connect."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import BusError, SettingsError
from headwater.loaded_settings import load
from headwater.replication import handover
from headwater.settings import Settings

ANN = Settings(
    account="A",
    nats_url="nats://hub:4222,nats://hub2:4222",
    user="ann",
    password='hush "\\\x7f\n€',
    tls_ca=Path("ca.pem"),
    tls_first=True,
    max_storage_bytes=5,
)
BOB = Settings(account="B", folder="B-2", domain="edge", nats_url="nats://edge:4222", nkey=Path("/b.nk"))


def test_what_is_written_is_read_again_whole(tmp_path: Path) -> None:
    path = tmp_path / handover.NAME
    handover.write(path, Settings(seats=(ANN, BOB)), "hidden")
    seats = handover.seats_of(load(config=path).settings)
    whole = replace(ANN, tls_ca=Path("ca.pem").absolute())
    hidden = {
        name: replace(seat, replication_secret="hidden") for name, seat in {"A": whole, "B-2": BOB}.items()
    }
    assert seats == hidden
    handover.write(path, ANN, "hidden")
    assert handover.seats_of(load(config=path).settings) == {"": hidden["A"]}


def test_only_the_owner_may_read_it_and_an_older_one_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / handover.NAME
    path.write_text("stale")
    path.chmod(0o644)
    handover.write(path, ANN, "hidden")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "stale" not in path.read_text()
    assert [each.name for each in tmp_path.iterdir()] == [handover.NAME]


def test_a_transfer_connects_as_its_seat_does(tmp_path: Path) -> None:
    path = tmp_path / handover.NAME
    handover.write(path, Settings(seats=(ANN, BOB)), "hidden")
    options = handover.connect_options(str(path), "A", "transfer")
    assert options.servers == ("nats://hub:4222", "nats://hub2:4222")
    assert (options.name, options.user, options.password, options.tls_first) == (
        "transfer",
        "ann",
        ANN.password,
        True,
    )
    assert handover.connect_options(str(path), "B-2", "transfer").nkey_file == "/b.nk"


def test_a_file_that_is_missing_or_lacks_the_seat_is_named(tmp_path: Path) -> None:
    path = tmp_path / handover.NAME
    with pytest.raises(BusError, match=r"cannot read.*transfers need its credentials"):
        handover.connect_options(str(path), "A", "transfer")
    handover.write(path, ANN, "hidden")
    with pytest.raises(BusError, match="has no seat with the folder C"):
        handover.connect_options(str(path), "C", "transfer")


def test_a_host_may_have_the_file_under_another_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handover.write(tmp_path / "mine.toml", replace(ANN, nats_url="nats://from-here:4222"), "hidden")
    monkeypatch.setenv(handover.HERE, str(tmp_path / "mine.toml"))
    options = handover.connect_options("/not/on/this/host/replicator.toml", "A", "transfer")
    assert options.servers == ("nats://from-here:4222",)


def test_a_host_may_have_a_folder_with_the_files_of_several_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handover.write(tmp_path / "lake.toml", ANN, "hidden")
    handover.write(tmp_path / "pond.toml", BOB, "hidden")
    monkeypatch.setenv(handover.HERE, str(tmp_path))
    assert handover.connect_options("/hub/lake/replicator.toml", "A", "transfer").user == "ann"
    assert handover.connect_options("/hub/pond/replicator.toml", "B-2", "transfer").nkey_file == "/b.nk"
    with pytest.raises(BusError, match=r"sea\.toml"):
        handover.connect_options("/hub/sea/replicator.toml", "A", "transfer")


def test_without_a_word_of_the_host_the_file_is_where_the_engine_wrote_it() -> None:
    assert handover.path_here(Path("/lake/replicator.toml"), {}) == Path("/lake/replicator.toml")


def test_an_engine_makes_a_secret_at_each_start_unless_it_is_given_one() -> None:
    assert handover.secret_for(ANN) != handover.secret_for(ANN)
    assert len(handover.secret_for(ANN)) == 64
    assert handover.secret_for(replace(ANN, replication_secret="given")) == "given"


def test_a_secret_is_read_again_when_the_engine_was_started_again(tmp_path: Path) -> None:
    path = tmp_path / handover.NAME
    handover.write(path, ANN, "first")
    secret = handover.SecretFile(path)
    assert [secret(), secret()] == [b"first", b"first"]
    handover.write(path, ANN, "second")
    assert secret() == b"second"
    path.unlink()
    with pytest.raises(SettingsError, match="secret"):
        secret()


def test_the_file_that_an_engine_is_served_from_leads_to_its_secret(tmp_path: Path) -> None:
    own = tmp_path / "hub.toml"
    own.write_text(f'store = "{tmp_path}"\n')
    secret = handover.SecretFile(own)
    for each in ("first", "second"):
        handover.write(tmp_path / handover.NAME, ANN, each)
        assert secret() == each.encode()
