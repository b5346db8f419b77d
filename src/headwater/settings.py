"""A process's settings: one frozen value; each setting is declared once."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from headwater.errors import SettingsError

MIB = 1024 * 1024
PREFIX = "HEADWATER_"
_USERINFO = re.compile(r"[^/,]*@")
_JOURNALS = ("nats", "tls", "s3", "gs", "az", "file")
PROOFS = ("creds", "nkey", "user", "password", "password_file", "token")
"""The settings that are credentials."""


def default_memory_dir() -> Path:
    """Return tmpfs if the machine has it, else the directory for temporary files."""
    shm = Path("/dev/shm")
    return shm if os.access(shm, os.W_OK) else Path(tempfile.gettempdir())


def _setting(doc: str, group: str, default: Any = None, **about: Any) -> Any:
    """Declare one setting: its sentence, its group, its default, and its valid values."""
    metadata = {"doc": doc, "group": group, **about}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, repr=False, kw_only=True)
class Settings:
    """Every setting of an engine, checked when created; its repr hides secrets."""

    store: Path | None = _setting("Directory of the store, created if missing.", "Store")
    memory_dir: Path = _setting(
        "Directory for streams with memory storage; they do not survive a restart.",
        "Store",
        default_memory_dir,
        default_text="`/dev/shm`, else the directory for temporary files",
    )
    tables: str | None = _setting(
        "Address in a bucket (s3://, gs://, az:// or file://) where the tables of new streams are kept, "
        "instead of in the store. Credentials come from the environment, an AWS profile, or settings.",
        "Store",
    )
    tables_endpoint: str | None = _setting(
        "Address of the object store that has the bucket; without it, AWS_ENDPOINT_URL or "
        "AZURE_STORAGE_ENDPOINT, or the cloud's own.",
        "Store",
    )
    tables_region: str | None = _setting("Region of the bucket; without it, AWS_REGION.", "Store")
    tables_access_key_id: str | None = _setting(
        "Access key of the S3 server; without it, AWS_ACCESS_KEY_ID or an AWS profile.", "Store", secret=True
    )
    tables_secret_access_key: str | None = _setting(
        "Secret of that access key; better set in a file or the environment than as a flag.",
        "Store",
        secret=True,
    )
    tables_session_token: str | None = _setting("Session token of that access key.", "Store", secret=True)
    tables_cache_bytes: int = _setting(
        "Size of the cache on the local disk for what is read from tables in the bucket.",
        "Store",
        1024 * MIB,
        low=0,
    )
    journal: str | None = _setting(
        "Address of a journal that outlives the machine: nats://HOST,HOST,HOST/NAME for a stream with three "
        "replicas, or s3://, gs://, az:// or file:// for objects. The store is then a cache; needs tables.",
        "Store",
    )
    journal_creds: Path | None = _setting(
        "File with a user's JWT and seed for the journal's NATS cluster.", "Store"
    )
    journal_lenient: bool = _setting(
        "Accept a NATS journal with fewer than three replicas, or whose servers do not sync each write.",
        "Store",
        False,
    )
    standby: bool = _setting(
        "Wait as a standby while another engine serves the store, and take over when it stops.",
        "Store",
        False,
    )
    folder: str | None = _setting(
        "Folder of the store for this account's streams; the default is the account's name.",
        "Store",
        pattern=r"[^\s.*>/\\]+",
        per_seat=True,
    )

    port: int = _setting(
        "Port of the embedded nats-server on loopback; 0 chooses a free one.",
        "Server",
        4222,
        low=0,
        high=65535,
    )
    nats_url: str | None = _setting(
        "Address of a running nats-server to connect to, instead of starting an embedded one.",
        "Server",
        flag="--nats",
        per_seat=True,
    )
    leaf_url: str | None = _setting(
        "Address of that server's leaf node port; without it no message is delivered to consumers.",
        "Server",
        flag="--leaf",
        per_seat=True,
    )
    domain: str | None = _setting(
        "JetStream domain to serve; required if the nats-server has JetStream of its own.",
        "Server",
        pattern=r"[^\s.*>]+",
        per_seat=True,
    )
    ack_format: str = _setting(
        "Format of ack subjects: v2 contains the domain, so that acks of sites with equal names do not mix.",
        "Server",
        "v1",
        choices=("v1", "v2"),
        per_seat=True,
    )
    server_name: str | None = _setting(
        "Name that is shown as the leader of streams; the default is the host name.",
        "Server",
        pattern=r"\S+",
        per_seat=True,
    )
    cluster: str | None = _setting(
        "Name of the cluster that is shown for streams; lists then show their leaders, too.",
        "Server",
        pattern=r"\S+",
        per_seat=True,
    )
    account: str = _setting(
        "Account whose streams this engine serves.",
        "Server",
        "$G",
        pattern=r"[^\s.*>/\\]+",
        per_seat=True,
    )
    max_payload_bytes: int = _setting(
        "Largest message that clients of the embedded nats-server may store.",
        "Server",
        MIB,
        low=1024,
        high=64 * MIB,
    )

    creds: Path | None = _setting("File with a user's JWT and seed.", "Credentials", per_seat=True)
    nkey: Path | None = _setting("File with a user's NKey seed.", "Credentials", per_seat=True)
    user: str | None = _setting("User name.", "Credentials", per_seat=True)
    password: str | None = _setting(
        "Password; prefer password_file or the environment.", "Credentials", secret=True, per_seat=True
    )
    password_file: Path | None = _setting(
        "File with the user's password, read at each connect.", "Credentials", per_seat=True
    )
    token: str | None = _setting("Token; prefer the environment.", "Credentials", secret=True, per_seat=True)
    tls_ca: Path | None = _setting(
        "File with the CA certificates that verify the server.", "Credentials", per_seat=True
    )
    tls_cert: Path | None = _setting("File with the client certificate.", "Credentials", per_seat=True)
    tls_key: Path | None = _setting("File with the client certificate's key.", "Credentials", per_seat=True)
    tls_first: bool = _setting(
        "Start TLS before the server's INFO, as `handshake_first` in its configuration requires.",
        "Credentials",
        False,
        per_seat=True,
    )

    max_memory_bytes: int = _setting(
        "Memory storage that an account may use; -1 is no limit.", "Limits", -1, low=-1, per_seat=True
    )
    max_storage_bytes: int = _setting(
        "File storage that an account may use; -1 is no limit.", "Limits", -1, low=-1, per_seat=True
    )
    max_streams: int = _setting(
        "Streams that an account may have; -1 is no limit.", "Limits", -1, low=-1, per_seat=True
    )
    max_consumers: int = _setting(
        "Consumers that a stream of the account may have; -1 is no limit.",
        "Limits",
        -1,
        low=-1,
        per_seat=True,
    )
    max_ack_pending: int = _setting(
        "Largest max_ack_pending of a consumer of the account; -1 is no limit.",
        "Limits",
        -1,
        low=-1,
        per_seat=True,
    )
    memory_max_stream_bytes: int = _setting(
        "Largest max_bytes of a stream with memory storage, which then must have one; -1 is no limit.",
        "Limits",
        -1,
        low=-1,
        per_seat=True,
    )
    storage_max_stream_bytes: int = _setting(
        "Largest max_bytes of a stream with file storage, which then must have one; -1 is no limit.",
        "Limits",
        -1,
        low=-1,
        per_seat=True,
    )
    max_bytes_required: bool = _setting(
        "Require a max_bytes of each stream of the account.", "Limits", False, per_seat=True
    )
    max_duplicate_window_s: float = _setting(
        "Longest duplicate window of a stream; 0 is no limit.", "Limits", 0.0, low=0
    )
    max_replicas: int = _setting(
        "Largest num_replicas of a stream; the engine stores one, its disk or file system the others.",
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
        "Age at which messages are folded from a stream's log into its table, however few they are.",
        "Folding",
        1.0,
        low=0.01,
        high=3600,
    )
    compact_interval_s: float = _setting(
        "How often a stream's table is checked for small files and removed messages to compact.",
        "Folding",
        5.0,
        low=0.01,
        high=86_400,
    )
    erase_interval_s: float | None = _setting(
        "How long removed messages may stay in a table's current files, whatever the rewrite costs; without "
        "it compaction removes them on a budget. A stream's metadata headwater.erase_interval overrides it.",
        "Folding",
        low=0,
    )
    erase_grace_s: float = _setting(
        "How long a replaced file stays on disk for readers that still have it open.", "Folding", 60.0, low=0
    )
    target_file_bytes: int = _setting(
        "Size of table files that compaction aims at.", "Folding", 128 * MIB, low=64 * 1024
    )
    read_cache_bytes: int = _setting("Memory for the cache of table row groups.", "Folding", 128 * MIB, low=0)

    replicator: str = _setting(
        "`own`: the engine starts a replicator once there is an upstream. `submitted`: you submit one to a "
        "Spark cluster.",
        "Replication",
        "own",
        choices=("own", "submitted"),
    )
    spark_master: str = _setting(
        "Spark master of the replicator; `local[2]` uses two cores.",
        "Replication",
        "local[*]",
    )
    spark_driver_memory: str = _setting(
        "Memory of the replicator's JVM. Messages pass through it only in short tails that plans carry and "
        "in small receipts.",
        "Replication",
        "1g",
    )
    replication_secret: str | None = _setting(
        "Secret with which an engine and its replicators authenticate each other; without it, the engine "
        "creates one at each start and writes it to the store's replicator.toml.",
        "Replication",
        secret=True,
    )
    executor_config: Path | None = _setting(
        "File on executors' hosts that transfer tasks read instead of the store's replicator.toml; or a "
        "folder with one file for each store, named after the store's folder.",
        "Replication",
    )

    pipelines: str = _setting(
        "`own`: the engine starts the runner once there is a pipeline. `submitted`: you submit one to a "
        "Spark cluster. `off`: there are no pipelines.",
        "Pipelines",
        "own",
        choices=("own", "submitted", "off"),
    )
    pipeline_functions: str | None = _setting(
        "Python functions that pipelines may run, as module:function, several separated by commas; without "
        "it, pipelines are SQL only.",
        "Pipelines",
    )
    pipeline_checkpoints: Path | None = _setting(
        "Folder for the checkpoints of pipelines; the default is .pipelines in the store. On a cluster, and "
        "with a journal, it must be one that all machines see.",
        "Pipelines",
    )
    pipeline_memory: str = _setting("Memory of the JVM that runs pipelines.", "Pipelines", "1g")

    stan: str | None = _setting(
        "Cluster id under which NATS Streaming clients reach the account's streams as channels.",
        "NATS Streaming",
        pattern=r"[a-zA-Z0-9_-]+",
        per_seat=True,
    )
    stan_max_channels: int = _setting(
        "Channels that there may be; 0 is no limit.", "NATS Streaming", 100, low=0
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
        "Subscriptions that a channel may have, including durables without a client; 0 is no limit.",
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
        "TOML file with a table of limits for each channel, or pattern of channels, that has its own.",
        "NATS Streaming",
    )
    stan_partitioning: bool = _setting(
        "Serve only the channels that stan_channels names; other engines serve the rest.",
        "NATS Streaming",
        False,
    )
    stan_partition_wait_s: float = _setting(
        "How long a starting engine waits for another one to report that it serves the same channel.",
        "NATS Streaming",
        1.0,
        low=0.01,
    )
    stan_clustered: bool = _setting(
        "Engines of one cluster id share one state through the journal: one leads, the others follow and "
        "take over. Needs journal; like standby, with the states of a NATS Streaming cluster.",
        "NATS Streaming",
        False,
    )
    stan_node_id: str | None = _setting(
        "Id of this engine in a NATS Streaming cluster; without it, one is chosen and kept in the store's "
        "folder.",
        "NATS Streaming",
        pattern=r"[a-zA-Z0-9_-]+",
    )
    stan_hb_interval_s: float = _setting(
        "How often the engine sends a heartbeat to each NATS Streaming client.",
        "NATS Streaming",
        30.0,
        low=0.01,
    )
    stan_hb_timeout_s: float = _setting(
        "How long a NATS Streaming client may take to answer a heartbeat.", "NATS Streaming", 10.0, low=0.01
    )
    stan_hb_fail_count: int = _setting(
        "How many heartbeats in a row a client may leave unanswered.", "NATS Streaming", 10, low=0
    )
    stan_probe_s: float = _setting(
        "How long the owner of a client id may take to answer when another client requests the id.",
        "NATS Streaming",
        0.5,
        low=0.01,
    )
    stan_replace_durable: bool = _setting(
        "Move a durable that is in use to the client that requests it again, instead of refusing.",
        "NATS Streaming",
        False,
    )

    http_port: int | None = _setting(
        "Port for /healthz, /readyz, /metrics and the pages of NATS Streaming; 0 chooses a free one.",
        "Monitoring",
        low=0,
        high=65535,
        per_seat=True,
    )
    http_host: str = _setting("Address on which monitoring pages are served.", "Monitoring", "127.0.0.1")
    console: bool = _setting(
        "Start the web console with the engine, as a separate process on loopback (extra `console`).",
        "Monitoring",
        False,
    )
    console_port: int = _setting("Port of that console.", "Monitoring", 8280, low=1, high=65535)
    history_stream: str | None = _setting(
        "Stream to which the engine writes the numbers of /history once a minute; created if missing, in the "
        "first account.",
        "Monitoring",
        pattern=r"[^\s.*>/\\]+",
    )
    metrics_streams: int = _setting(
        "Streams that /metrics shows one by one, and as many consumers and upstreams; totals count them all.",
        "Monitoring",
        1000,
        low=0,
    )

    log_level: str = _setting(
        "Minimum log level.", "Logging", "info", choices=("debug", "info", "warning", "error")
    )
    log_format: str = _setting("Format of a log line.", "Logging", "text", choices=("text", "json"))

    seats: tuple[Settings, ...] = ()
    """The settings of each account that is served; empty if this one account is the only one."""

    def __post_init__(self) -> None:
        for setting in rows():
            _check(setting, getattr(self, setting.name))
        if self.nats_url is None and not self.seats:
            for name in ("leaf_url", *PROOFS, "tls_ca", "tls_cert"):
                if getattr(self, name) is not None:
                    raise SettingsError(f"{name} requires nats_url: the embedded nats-server does not use it")
        if self.tables is None and (self.tables_endpoint is not None or self.tables_region is not None):
            raise SettingsError("tables_endpoint and tables_region require tables")
        if (self.tables_access_key_id is None) != (self.tables_secret_access_key is None):
            raise SettingsError("tables_access_key_id and tables_secret_access_key belong together: set both")
        if self.tables is None and self.tables_access_key_id is not None:
            raise SettingsError("tables_access_key_id and tables_secret_access_key require tables")
        if self.journal is None and (self.journal_creds is not None or self.journal_lenient):
            raise SettingsError("journal_creds and journal_lenient require journal")
        if self.journal is not None and self.tables is None:
            raise SettingsError(
                "journal requires tables: a store outlives its machine only if its tables are not on its disk"
            )
        if self.journal is not None and self.journal.partition("://")[0] not in _JOURNALS:
            raise SettingsError(f"journal: the address must begin with {', '.join(_JOURNALS)} and ://")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("tls_cert and tls_key belong together: set both or neither")
        if self.password is not None and self.password_file is not None:
            raise SettingsError("password and password_file exclude each other: set one of them")
        if (self.user is None) != (self.password is None and self.password_file is None):
            raise SettingsError("user and password belong together: set both or neither")

    @property
    def waits(self) -> bool:
        """Return whether the engine waits while another one serves its store."""
        return self.standby or self.stan_clustered

    @property
    def streams_folder(self) -> str:
        """Return the folder of the store for the account's streams."""
        return self.folder or self.account

    def __repr__(self) -> str:
        shows = [f"{row.name}={shown(row, getattr(self, row.name))}" for row in rows()]
        return f"Settings({', '.join([*shows, *map(repr, self.seats)])})"


def rows() -> Iterator[Field[Any]]:
    """Yield every setting in the order of the reference page."""
    yield from (setting for setting in fields(Settings) if "group" in setting.metadata)


def seat_rows() -> Iterator[Field[Any]]:
    """Yield the settings that each seat may set for itself."""
    yield from (setting for setting in rows() if setting.metadata.get("per_seat"))


def flag_of(setting: Field[Any]) -> str:
    """Return the setting's flag on the command line."""
    return str(setting.metadata.get("flag") or "--" + setting.name.replace("_", "-"))


def variable_of(setting: Field[Any]) -> str:
    """Return the setting's environment variable."""
    return PREFIX + setting.name.upper()


def _is_address(setting: Field[Any]) -> bool:
    return setting.name.endswith("_url") or setting.name == "journal"


def shown(setting: Field[Any], value: Any) -> str:
    """Return a value for people: secrets and credentials in addresses are hidden."""
    if value is None:
        return "none"
    if setting.metadata.get("secret"):
        return "(hidden)"
    return _USERINFO.sub("(hidden)@", str(value)) if _is_address(setting) else str(value)


def _check(setting: Field[Any], value: Any) -> None:
    """Raise an error if a value is invalid for its setting."""
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
