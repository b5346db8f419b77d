"""`stream backup` and `stream restore`: a stream as two files, in the layout of the nats command."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec
from nats.aio.msg import Msg

from headwater.cli.client import Caller, client_command
from headwater.cli.phrases import SIZE, size
from headwater.cli.progress import Meter
from headwater.cli.render import show, show_json
from headwater.cli.session import Json, Session, UnreachableError, answer_of, require_wanted
from headwater.cli.stream.config import read_file
from headwater.cli.stream.info import info_rows
from headwater.errors import Error
from headwater.model.counted import counted

META, DATA = "backup.json", "stream.tar.s2"
UNFINISHED = ".unfinished"
RESTORE_CHUNK = 128 << 10


@click.command()
@click.argument("stream")
@click.argument("target", type=click.Path(file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", default=True, help="Show progress.")
@click.option("--check", is_flag=True, help="Have the server check its files first.")
@click.option("--consumers/--no-consumers", default=False, help="Include consumers.")
@click.option("--chunk-size", type=SIZE, default="128KB", help="Size of the chunks that the server sends.")
@click.option("--window-size", type=SIZE, help="How many unacknowledged bytes the server may send.")
@client_command
def backup(
    caller: Caller,
    stream: str,
    target: Path,
    progress: bool,
    check: bool,
    consumers: bool,
    chunk_size: int,
    window_size: int | None,
) -> None:
    """Back up a stream to the directory TARGET.

    Files end in .unfinished until they are complete. An interrupted backup removes its files.
    """
    asked: Json = {"no_consumers": not consumers, "chunk_size": chunk_size, "jsck": check}
    if window_size:
        asked["window_size"] = window_size
    taken = caller.run(lambda session: _take(session, stream, target, asked, progress))
    if caller.as_json:
        show_json(taken)
    else:
        held = f"{counted(taken['state']['messages'], 'message')}, {size(taken['bytes'])}"
        click.echo(f"Backed up stream {stream} to {target}: {held}")


@click.command()
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--progress/--no-progress", default=True, help="Show progress.")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="JSON file with the config to restore with.",
)
@click.option("--cluster", help="Cluster for the stream.")
@click.option("--tag", multiple=True, help="Tag of the servers to place it on; repeatable.")
@click.option("--replicas", type=click.IntRange(1, 5), help="Number of replicas.")
@client_command
def restore(
    caller: Caller,
    source: Path,
    progress: bool,
    config: Path | None,
    cluster: str | None,
    tag: tuple[str, ...],
    replicas: int | None,
) -> None:
    """Restore a stream from the directory SOURCE, which `stream backup` wrote."""
    held = _read_meta(source)
    declared = read_file(config) if config else dict(held["config"])
    if cluster or tag:
        declared["placement"] = {"cluster": cluster or "", "tags": list(tag)}
    if replicas:
        declared["num_replicas"] = replicas
    info = caller.run(lambda session: _give(session, source, declared, held["state"], progress))
    if caller.as_json:
        show_json(info)
    else:
        click.echo(f"Restored stream {info['config']['name']} from {source}\n")
        show(info_rows(info))


async def _take(session: Session, stream: str, target: Path, asked: Json, shown: bool) -> Json:
    """Receive the archive into files that are renamed once it is complete."""
    inbox = session.nats.new_inbox()
    chunks: asyncio.Queue[Msg] = asyncio.Queue()
    subscription = await session.nats.subscribe(inbox, cb=chunks.put)
    with _new_files(target) as (meta, data):
        answer = await session.request(f"STREAM.SNAPSHOT.{stream}", {**asked, "deliver_subject": inbox})
        # The size of the archive is unknown; the size of the stream is an estimate.
        about = int(answer["state"].get("bytes") or 0)
        with data.open("wb") as file, Meter(f"Backing up {stream}", about, say=size, shown=shown) as meter:
            while (chunk := await _next(chunks, session.timeout)).data:
                file.write(chunk.data)
                meter.advance(len(chunk.data))
                # The server does not wait for an answer to the last chunk, so that it has no reply subject.
                if chunk.reply:
                    await chunk.respond(b"")
            _check_end(chunk, stream)
            meter.finish()
        await subscription.unsubscribe()
        meta.write_bytes(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    return {"config": answer["config"], "state": answer["state"], "bytes": meter.done}


async def _give(session: Session, source: Path, config: Json, state: Json, shown: bool) -> Json:
    """Send the archive. The server discards an incomplete one."""
    name = config["name"]
    path = source / DATA
    total = path.stat().st_size
    answer = await session.request(f"STREAM.RESTORE.{name}", {"config": config, "state": state})
    subject = str(answer["deliver_subject"])
    with path.open("rb") as file, Meter(f"Restoring {name}", total, say=size, shown=shown) as meter:
        while chunk := file.read(min(RESTORE_CHUNK, session.nats.max_payload)):
            reply = await session.ask(subject, chunk)
            if reply.data:
                return answer_of(reply.data, "STREAM.RESTORE")
            meter.advance(len(chunk))
    # The server unpacks and checks the archive before it answers.
    last = await session.ask(subject, b"", wait=max(session.timeout, 60.0))
    return answer_of(last.data, "STREAM.RESTORE")


async def _next(chunks: asyncio.Queue[Msg], seconds: float) -> Msg:
    try:
        async with asyncio.timeout(max(seconds, 5.0)):
            chunk = await chunks.get()
        require_wanted()
        return chunk
    except TimeoutError:
        raise UnreachableError(
            "the server stopped sending: the incomplete backup was removed; try again"
        ) from None


def _check_end(message: Msg, stream: str) -> None:
    """Raise if the server did not finish the archive."""
    status = (message.headers or {}).get("Status", "204")
    if not status.startswith("204"):
        why = (message.headers or {}).get("Description", status)
        raise Error(
            f"the server stopped the backup of {stream}: {why}; the incomplete backup was removed, try again"
        )


@contextmanager
def _new_files(target: Path) -> Iterator[tuple[Path, Path]]:
    """Yield two files to write. They are renamed on success and removed on failure."""
    if (target / META).exists() or (target / DATA).exists():
        raise Error(f"{target} contains a backup already: choose another directory, or remove it")
    made = not target.exists()
    meta, data = target / (META + UNFINISHED), target / (DATA + UNFINISHED)
    try:
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        yield meta, data
        # The metadata is renamed last: a directory without it is not a backup.
        data.rename(target / DATA)
        meta.rename(target / META)
    except OSError as error:
        _remove(target, made)
        raise Error(f"cannot write {target}: {(error.strerror or str(error)).lower()}") from None
    except BaseException:
        _remove(target, made)
        raise


def _remove(target: Path, made: bool) -> None:
    for name in (META, DATA):
        (target / (name + UNFINISHED)).unlink(missing_ok=True)
    if made and target.exists():
        target.rmdir()


def _read_meta(source: Path) -> Json:
    try:
        held = msgspec.json.decode((source / META).read_bytes(), type=Json)
        held["config"]["name"], held["state"]
    except FileNotFoundError:
        raise Error(f"{source} is not a complete backup: {META} is missing") from None
    except (msgspec.DecodeError, KeyError, TypeError):
        raise Error(f"{source / META} is damaged: restore from another backup") from None
    if not (source / DATA).exists():
        raise Error(f"{source} is not a complete backup: {DATA} is missing")
    return held
