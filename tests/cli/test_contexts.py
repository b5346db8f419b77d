"""Context files: what they hold, which one is selected, and that the `nats` command agrees."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.cli.contexts import DEFAULT_URL, ContextFolder, SavedContext
from headwater.errors import Error

NATS = os.environ.get("HEADWATER_NATS_CLI") or shutil.which("nats")

# As the nats command writes it, with a key of a later version.
WRITTEN_BY_NATS = """{
  "description": "hub",
  "url": "nats://hub:4222, nats://hub2:4222",
  "socks_proxy": "",
  "token": "",
  "user": "bob",
  "password": "s3cret",
  "creds": "",
  "nkey": "",
  "cert": "",
  "key": "",
  "ca": "~/ca.pem",
  "nsc": "",
  "jetstream_domain": "lake",
  "jetstream_api_prefix": "",
  "jetstream_event_prefix": "",
  "inbox_prefix": "_INBOX.bob",
  "user_jwt": "",
  "user_seed": "",
  "color_scheme": "",
  "tls_first": true,
  "windows_cert_store": "",
  "windows_cert_match_by": "",
  "windows_cert_match": "",
  "windows_ca_certs_match": null,
  "of_a_later_version": 1
}"""


@pytest.fixture
def folder(tmp_path: Path) -> ContextFolder:
    return ContextFolder(tmp_path / "nats")


def write(folder: ContextFolder, name: str, text: str) -> None:
    (folder.directory / "context").mkdir(parents=True, exist_ok=True)
    (folder.directory / "context" / f"{name}.json").write_text(text)


def test_a_file_of_the_nats_command_is_read(folder: ContextFolder) -> None:
    write(folder, "hub", WRITTEN_BY_NATS)
    context = folder.load("hub")
    assert context.servers == ["nats://hub:4222", "nats://hub2:4222"]
    assert (context.user, context.password, context.jetstream_domain) == ("bob", "s3cret", "lake")
    assert context.tls_first
    assert context.path_of("ca") == str(Path.home() / "ca.pem")


def test_saving_keeps_keys_of_a_later_version_and_every_field_in_its_place(folder: ContextFolder) -> None:
    write(folder, "hub", WRITTEN_BY_NATS)
    folder.save("hub", folder.load("hub").updated({"description": "the hub", "user": ""}))
    written = (folder.directory / "context" / "hub.json").read_text()
    assert written == WRITTEN_BY_NATS.replace('"hub"', '"the hub"')


def test_an_empty_context_writes_the_fields_of_the_nats_command(folder: ContextFolder) -> None:
    folder.save("new", SavedContext())
    held = json.loads((folder.directory / "context" / "new.json").read_text())
    assert [*held, "of_a_later_version"] == list(json.loads(WRITTEN_BY_NATS))
    assert folder.load("new").servers == [DEFAULT_URL]


def test_only_the_owner_may_read_a_context(folder: ContextFolder) -> None:
    folder.save("hub", SavedContext(user="bob", password="s3cret"))
    folder.select("hub")
    modes = {file.stat().st_mode & 0o077 for file in folder.directory.rglob("*")}
    assert modes == {0}


def test_credentials_may_name_a_variable(folder: ContextFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "/etc/keys")
    assert SavedContext(creds="$KEYS/lake.creds").path_of("creds") == "/etc/keys/lake.creds"


def test_two_kinds_of_credentials_are_refused(folder: ContextFolder) -> None:
    with pytest.raises(Error, match="one kind of credentials, not user and creds"):
        folder.save("hub", SavedContext(user="bob", creds="lake.creds"))


def test_names_are_those_of_files_with_content(folder: ContextFolder) -> None:
    assert folder.names() == []
    write(folder, "b", "{}")
    write(folder, "a", "{}")
    write(folder, "empty", "")
    (folder.directory / "context" / "b.json.bak").write_text("{}")
    assert folder.names() == ["a", "b"]


def test_selecting_remembers_what_was_selected_before(folder: ContextFolder) -> None:
    for name in ("a", "b"):
        folder.save(name, SavedContext(description=name))
        folder.select(name)
    assert (folder.selected, folder.previous) == ("b", "a")
    folder.unselect()
    assert (folder.selected, folder.previous) == ("", "b")
    assert (folder.directory / "context.txt").exists() is False


def test_the_named_context_wins_over_the_selected_one(folder: ContextFolder) -> None:
    assert folder.resolve() == ("", SavedContext())
    for name in ("a", "b"):
        folder.save(name, SavedContext(description=name))
    folder.select("a")
    assert folder.resolve()[0] == "a"
    assert folder.resolve("b") == ("b", SavedContext(description="b"))


def test_a_deleted_context_is_no_longer_selected(folder: ContextFolder) -> None:
    folder.save("a", SavedContext())
    folder.select("a")
    folder.delete("a")
    assert (folder.names(), folder.selected) == ([], "")


@pytest.mark.parametrize("name", ["", "..", "a/b", "../a"])
def test_a_name_that_leaves_the_folder_is_refused(folder: ContextFolder, name: str) -> None:
    with pytest.raises(Error, match="is not a valid context name"):
        folder.load(name)


def test_an_unknown_context_is_one_sentence(folder: ContextFolder) -> None:
    with pytest.raises(Error, match='there is no context "hub": `headwater context ls` lists them'):
        folder.load("hub")


@pytest.mark.parametrize("text", ["{", "[]", '{"url": 7}'])
def test_a_damaged_file_is_named(folder: ContextFolder, text: str) -> None:
    write(folder, "hub", text)
    with pytest.raises(Error, match=r"context/hub\.json"):
        folder.load("hub")


def test_the_folder_of_the_user_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ContextFolder.of_user({"XDG_CONFIG_HOME": "/x"}).directory == Path("/x/nats")
    assert ContextFolder.of_user({}).directory == Path.home() / ".config" / "nats"


@pytest.mark.skipif(NATS is None, reason="no nats command on PATH or in HEADWATER_NATS_CLI")
def test_the_nats_command_and_this_one_read_each_others_contexts(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    folder = ContextFolder(tmp_path / "nats")

    def nats(*arguments: str) -> str:
        return subprocess.run(
            [str(NATS), *arguments], capture_output=True, text=True, env=environment, check=True
        ).stdout

    nats("context", "add", "theirs", "--server", "nats://hub:4222", "--js-domain", "lake", "--select")
    assert folder.selected == "theirs"
    assert folder.load("theirs") == SavedContext(url="nats://hub:4222", jetstream_domain="lake")

    ours = SavedContext(description="ours", url="nats://spoke:4222", user="bob", password="x", tls_first=True)
    folder.save("ours", ours)
    folder.select("ours")
    shown = json.loads(nats("context", "info", "--json"))
    assert shown.pop("name") == "ours"
    assert shown == json.loads((folder.directory / "context" / "ours.json").read_text())
    before = (folder.directory / "context" / "theirs.json").read_bytes()
    folder.save("theirs", folder.load("theirs"))
    assert (folder.directory / "context" / "theirs.json").read_bytes() == before
