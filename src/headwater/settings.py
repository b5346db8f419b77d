"""A process's settings: one frozen value from flags, environment, a TOML file and defaults."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from headwater.errors import SettingsError

MIB = 1024 * 1024
CONFIG_VARIABLE = "HEADWATER_CONFIG"
_PREFIX = "HEADWATER_"
_SIZE = re.compile(r"(\d+)\s*(KiB|MiB|GiB|TiB)?")
_SIZE_UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_USERINFO = re.compile(r"[^/,]*@")
_PROOFS = ("creds", "nkey", "user", "password", "password_file", "token")
_SEAT = "seat"
"""The tables of a settings file that each describe a seat."""


def default_memory_dir() -> Path:
    """Return tmpfs where the machine has it, else the directory for temporary files."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK) else Path(tempfile.gettempdir())


def _setting(doc: str, group: str, default: Any = None, **about: Any) -> Any:
    """Declare one setting: its sentence, its group, its default, and what values make sense."""
    metadata = {"doc": doc, "group": group, **about}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, repr=False, kw_only=True)
class Settings:
    """Every setting of an engine, checked when made; secrets do not show in its repr."""

    store: Path | None = _setting("Directory that holds every stream, created when missing.", "Store")
    memory_dir: Path = _setting(
        "Directory for streams with memory storage; what lies there does not survive a restart.",
        "Store",
        default_memory_dir,
        default_text="`/dev/shm`, else the directory for temporary files",
    )
    standby: bool = _setting(
        "Whether to wait while another engine holds the store, and to take over when that one is gone.",
        "Store",
        False,
    )
    folder: str | None = _setting(
        "Folder of the store for this account's streams; without it, it is called like the account.",
        "Store",
        pattern=r"[^\s.*>/\\]+",
        per_seat=True,
    )

    port: int = _setting(
        "Port of the embedded nats-server on loopback; 0 takes a free one.",
        "Server",
        4222,
        low=0,
        high=65535,
    )
    nats_url: str | None = _setting(
        "Address of a running nats-server to attach to, instead of embedding one.",
        "Server",
        flag="--nats",
        per_seat=True,
    )
    leaf_url: str | None = _setting(
        "Address of that server's leaf node port; without it nothing is delivered to consumers.",
        "Server",
        flag="--leaf",
        per_seat=True,
    )
    domain: str | None = _setting(
        "JetStream domain to serve beside the server's own JetStream.",
        "Server",
        pattern=r"[^\s.*>]+",
        per_seat=True,
    )
    ack_format: str = _setting(
        "Form of ack subjects: v2 names the domain, so that sites with equal names keep their acks apart.",
        "Server",
        "v1",
        choices=("v1", "v2"),
        per_seat=True,
    )
    server_name: str | None = _setting(
        "Name under which the engine shows itself as the leader of streams; without it, the machine's.",
        "Server",
        pattern=r"\S+",
        per_seat=True,
    )
    cluster: str | None = _setting(
        "Name of the cluster that streams are shown to be in; lists then tell their leaders, too.",
        "Server",
        pattern=r"\S+",
        per_seat=True,
    )
    account: str = _setting(
        "Account whose streams this engine holds.",
        "Server",
        "$G",
        pattern=r"[^\s.*>/\\]+",
        per_seat=True,
    )
    max_payload_bytes: int = _setting(
        "Largest message that the embedded nats-server takes.", "Server", MIB, low=1024, high=64 * MIB
    )

    creds: Path | None = _setting("File with a user's JWT and seed.", "Credentials", per_seat=True)
    nkey: Path | None = _setting("File with a user's NKey seed.", "Credentials", per_seat=True)
    user: str | None = _setting("User name.", "Credentials", per_seat=True)
    password: str | None = _setting(
        "Password; better given in a file or in the environment.", "Credentials", secret=True, per_seat=True
    )
    password_file: Path | None = _setting(
        "File with that user's password, read again at each connect.", "Credentials", per_seat=True
    )
    token: str | None = _setting(
        "Token; better given in the environment.", "Credentials", secret=True, per_seat=True
    )
    tls_ca: Path | None = _setting(
        "File with the authorities that vouch for the server.", "Credentials", per_seat=True
    )
    tls_cert: Path | None = _setting(
        "File with the certificate shown to the server.", "Credentials", per_seat=True
    )
    tls_key: Path | None = _setting("File with that certificate's key.", "Credentials", per_seat=True)
    tls_first: bool = _setting(
        "Whether TLS begins before the server's greeting, as `handshake_first` asks for.",
        "Credentials",
        False,
        per_seat=True,
    )

    max_memory_bytes: int = _setting(
        "Memory storage an account may take; -1 is no limit.", "Limits", -1, low=-1, per_seat=True
    )
    max_storage_bytes: int = _setting(
        "File storage an account may take; -1 is no limit.", "Limits", -1, low=-1, per_seat=True
    )
    max_duplicate_window_s: float = _setting(
        "Longest duplicate window a stream may ask for; 0 is no limit.", "Limits", 0.0, low=0
    )
    max_replicas: int = _setting(
        "Most replicas that a stream may ask for; the engine keeps one, its disk or file system the others.",
        "Limits",
        1,
        low=1,
        high=5,
    )

    fold_bytes: int = _setting(
        "Payload in a stream's log that starts a fold into its table.", "Folding", 64 * MIB, low=4096
    )
    fold_messages: int = _setting(
        "Messages in a stream's log that start a fold into its table.", "Folding", 200_000, low=1
    )
    fold_interval_s: float = _setting(
        "Age at which messages leave a stream's log for its table, however few they are.",
        "Folding",
        1.0,
        low=0.01,
        high=3600,
    )
    compact_interval_s: float = _setting(
        "How often a stream's table is looked at for small files and erased messages.",
        "Folding",
        5.0,
        low=0.01,
        high=86_400,
    )
    erase_interval_s: float = _setting(
        "How long removed messages may stay in a table's current files before they are erased.",
        "Folding",
        30.0,
        low=0,
    )
    erase_grace_s: float = _setting(
        "How long a replaced file stays on disk for readers that still have it open.", "Folding", 60.0, low=0
    )
    target_file_bytes: int = _setting(
        "Size that compaction makes table files grow to.", "Folding", 128 * MIB, low=64 * 1024
    )
    read_cache_bytes: int = _setting(
        "Memory for pieces of tables that were read lately.", "Folding", 128 * MIB, low=0
    )

    replicator: str = _setting(
        "Whether the engine starts a replicator of its own once there is something to copy, or leaves that "
        "to one that was submitted to a cluster.",
        "Replication",
        "own",
        choices=("own", "submitted"),
    )
    spark_master: str = _setting(
        "Spark master that the replicator runs on; `local[2]` would take two cores.",
        "Replication",
        "local[*]",
    )
    spark_driver_memory: str = _setting(
        "Memory of the replicator's Java machine; messages never pass through it.", "Replication", "1g"
    )

    stan: str | None = _setting(
        "Cluster id under which the account's streams are served to NATS Streaming clients, as channels.",
        "NATS Streaming",
        pattern=r"[a-zA-Z0-9_-]+",
        per_seat=True,
    )
    stan_max_channels: int = _setting(
        "How many channels there may be; 0 is no limit.", "NATS Streaming", 100, low=0
    )
    stan_max_msgs: int = _setting(
        "Messages that a channel keeps; 0 is no limit.", "NATS Streaming", 1_000_000, low=0
    )
    stan_max_bytes: int = _setting(
        "Bytes that a channel keeps; 0 is no limit.", "NATS Streaming", 1_024_000_000, low=0
    )
    stan_max_age_s: float = _setting(
        "How long a channel keeps a message; 0 is no limit.", "NATS Streaming", 0.0, low=0
    )
    stan_max_subs: int = _setting(
        "Subscriptions that a channel may have, durables without a client included; 0 is no limit.",
        "NATS Streaming",
        1000,
        low=0,
    )
    stan_max_inactivity_s: float = _setting(
        "After how long without a publish or a subscriber a channel is deleted; 0 is never.",
        "NATS Streaming",
        0.0,
        low=0,
    )
    stan_channels: Path | None = _setting(
        "TOML file with a table of limits for each channel or pattern of channels that differs.",
        "NATS Streaming",
    )
    stan_partitioning: bool = _setting(
        "Whether only the channels that stan_channels names are served, and other engines serve the rest.",
        "NATS Streaming",
        False,
    )
    stan_partition_wait_s: float = _setting(
        "How long an engine that starts waits for another one to say that it serves the same channel.",
        "NATS Streaming",
        1.0,
        low=0.01,
    )
    stan_clustered: bool = _setting(
        "Refused: an engine has standbys, and no quorum. Here for those who bring a NATS Streaming config.",
        "NATS Streaming",
        False,
    )
    stan_hb_interval_s: float = _setting(
        "How often a NATS Streaming client is asked whether it is there.", "NATS Streaming", 30.0, low=0.01
    )
    stan_hb_timeout_s: float = _setting(
        "How long a NATS Streaming client may take to answer that.", "NATS Streaming", 10.0, low=0.01
    )
    stan_hb_fail_count: int = _setting(
        "How many of those questions in a row a client may leave unanswered.", "NATS Streaming", 10, low=0
    )
    stan_probe_s: float = _setting(
        "How long the owner of a client id has to answer when another client wants that id.",
        "NATS Streaming",
        0.5,
        low=0.01,
    )
    stan_replace_durable: bool = _setting(
        "Whether a durable that is in use goes to whoever asks for it anew, instead of being refused.",
        "NATS Streaming",
        False,
    )

    http_port: int | None = _setting(
        "Port for pages about the engine, such as those of NATS Streaming; 0 takes a free one.",
        "Monitoring",
        low=0,
        high=65535,
        per_seat=True,
    )
    http_host: str = _setting("Address on which those pages are served.", "Monitoring", "127.0.0.1")

    log_level: str = _setting(
        "Least grave message to log.", "Logging", "info", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting("Form of a log line.", "Logging", "text", choices=("text", "json"))

    seats: tuple[Settings, ...] = ()
    """The accounts that are served, each with its settings whole; none where this one account is all."""

    def __post_init__(self) -> None:
        for setting in rows():
            _check(setting, getattr(self, setting.name))
        if self.nats_url is None and not self.seats:
            for name in ("leaf_url", *_PROOFS, "tls_ca", "tls_cert"):
                if getattr(self, name) is not None:
                    raise SettingsError(
                        f"{name} has a meaning only with nats_url: the embedded server needs none"
                    )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("tls_cert and tls_key go together: give both or neither")
        if self.password is not None and self.password_file is not None:
            raise SettingsError("password and password_file say the same thing: give one of them")
        if (self.user is None) != (self.password is None and self.password_file is None):
            raise SettingsError("user and password go together: give both or neither")

    @property
    def streams_folder(self) -> str:
        """Return the folder of the store for the account's streams."""
        return self.folder or self.account

    def __repr__(self) -> str:
        shows = [f"{row.name}={shown(row, getattr(self, row.name))}" for row in rows()]
        return f"Settings({', '.join([*shows, *map(repr, self.seats)])})"


@dataclass(frozen=True)
class Loaded:
    """Settings, and for each of them where its value came from."""

    settings: Settings
    origins: Mapping[str, str]


def rows() -> Iterator[Field[Any]]:
    """Yield every setting in the order of the reference page."""
    yield from (setting for setting in fields(Settings) if "group" in setting.metadata)


def seat_rows() -> Iterator[Field[Any]]:
    """Yield the settings that each seat has for itself."""
    yield from (setting for setting in rows() if setting.metadata.get("per_seat"))


def flag_of(setting: Field[Any]) -> str:
    """Return the setting's flag on the command line."""
    return str(setting.metadata.get("flag") or "--" + setting.name.replace("_", "-"))


def variable_of(setting: Field[Any]) -> str:
    """Return the setting's environment variable."""
    return _PREFIX + setting.name.upper()


def shown(setting: Field[Any], value: Any) -> str:
    """Return a value as people may see it: secrets and passwords in addresses are hidden."""
    if value is None:
        return "none"
    if setting.metadata.get("secret"):
        return "(hidden)"
    return _USERINFO.sub("(hidden)@", str(value)) if setting.name.endswith("_url") else str(value)


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Loaded:
    """Return the settings, flags before environment before file before defaults."""
    environ = environ or {}
    variables = {k: v for k, v in environ.items() if k.startswith(_PREFIX) and k != CONFIG_VARIABLE}
    if config is None and environ.get(CONFIG_VARIABLE):
        config = Path(environ[CONFIG_VARIABLE])
    file = {} if config is None else _read_file(config)
    tables = file.pop(_SEAT, [])
    sources: list[tuple[Mapping[str, Any], Callable[[Field[Any]], str], str]] = [
        (file, lambda s: s.name, f"{config}: {{}}"),
        (variables, variable_of, "environment variable {}"),
        (flags or {}, lambda s: s.name, "flag {}"),
    ]
    values: dict[str, Any] = {}
    origins = {setting.name: "default" for setting in rows()}
    for source, key_of, origin in sources:
        known = {key_of(setting): setting for setting in rows()}
        for key, value in source.items():
            if key not in known:
                raise SettingsError(_unknown(origin.format(key), key, known))
            setting = known[key]
            place = origin.format(flag_of(setting) if source is flags else key)
            values[setting.name] = _convert(setting, value, place)
            origins[setting.name] = place
    return Loaded(Settings(**values, seats=_seats(values, tables, f"{config}")), origins)


def _seats(values: Mapping[str, Any], tables: Any, place: str) -> tuple[Settings, ...]:
    """Return the seats of a file; what one leaves out is as outside, but for who it is."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{place}: {_SEAT} must be tables, each headed [[{_SEAT}]]")
    own = ("account", "folder", *_PROOFS)
    if tables and (outside := [name for name in own if name in values]):
        raise SettingsError(f"{outside[0]} belongs into each [[{_SEAT}]] of {place}, not beside them")
    known = {setting.name: setting for setting in seat_rows()}
    seats: list[Settings] = []
    for number, table in enumerate(tables, 1):
        here = f"{place}: {_SEAT} {number}"
        for key in table.keys() - known.keys():
            raise SettingsError(_unknown(f"{here}: {key}", key, known))
        given = {key: _convert(known[key], value, f"{here}: {key}") for key, value in table.items()}
        seats.append(_seat({**values, **given}, here))
        if (folder := seats[-1].streams_folder) in (seat.streams_folder for seat in seats[:-1]):
            raise SettingsError(f"{here} has the folder {folder} of another seat: give it one with folder")
    return tuple(seats)


def _seat(values: Mapping[str, Any], place: str) -> Settings:
    for name in ("account", "nats_url"):
        if name not in values:
            raise SettingsError(f"{place} lacks {name}")
    try:
        return Settings(**values)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from None


def _read_file(path: Path) -> dict[str, Any]:
    """Return the keys of a TOML file."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is not TOML: {error}") from None


def _unknown(place: str, key: str, known: Mapping[str, Any]) -> str:
    """Return the sentence that refuses an unknown key, with the nearest known one."""
    near = get_close_matches(key, known, n=1)
    return f"{place} is no setting of Headwater" + (f"; did you mean {near[0]}?" if near else "")


def _convert(setting: Field[Any], value: Any, place: str) -> Any:
    """Return a flag's, a variable's or a file's value as the setting's type."""
    kind = str(setting.type).removesuffix(" | None")
    try:
        if kind == "bool":
            return _truth(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float | Path):
            raise ValueError
        if kind == "int":
            return _whole_number(setting, value)
        if kind == "float":
            return float(str(value))
        if isinstance(value, int | float):
            raise ValueError
        return Path(value).expanduser() if kind == "Path" else str(value)
    except (ValueError, TypeError):
        wanted = {
            "int": "a whole number",
            "float": "a number",
            "Path": "a path",
            "str": "text",
            "bool": "true or false",
        }[kind]
        if setting.name.endswith("_bytes"):
            wanted += " of bytes, as 67108864 or 64MiB"
        raise SettingsError(f"{place} must be {wanted}, not {shown(setting, value)!r}") from None


def _truth(value: Any) -> bool:
    """Return whether a value says yes."""
    said = {"true": True, "false": False}.get(str(value).lower())
    if said is None:
        raise ValueError
    return said


def _whole_number(setting: Field[Any], value: str | int | float | Path) -> int:
    """Return a whole number; a size may carry a unit."""
    if isinstance(value, int):
        return value
    if setting.name.endswith("_bytes") and (size := _SIZE.fullmatch(str(value).strip())):
        return int(size[1]) * _SIZE_UNITS[size[2]]
    return int(str(value))


def _check(setting: Field[Any], value: Any) -> None:
    """Refuse a value that has no sense for its setting."""
    if value is None:
        return
    about = setting.metadata
    low, high = about.get("low"), about.get("high")
    if "choices" in about and value not in about["choices"]:
        raise SettingsError(f"{setting.name} must be one of {', '.join(about['choices'])}, not {value!r}")
    if (low is not None and not value >= low) or (high is not None and not value <= high):
        raise SettingsError(f"{setting.name} must be {in_words(low, high)}, not {value}")
    if "pattern" in about and not re.fullmatch(about["pattern"], value):
        raise SettingsError(f"{setting.name} must be one word without dots or wildcards, not {value!r}")


def in_words(low: float | None, high: float | None) -> str:
    """Return a range in words."""
    if high is None:
        return f"at least {low}"
    return f"between {low} and {high}"
