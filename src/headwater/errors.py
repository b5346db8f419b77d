"""The errors that Headwater reports: one base class, and API errors as rows of data.

A module that alone raises an error defines it. Its name is then given in brackets.

Error
├── ApiError                    returned to a client as code, err_code, description
│   ├── OriginUnansweredError   no service answers on an origin's API [upstreams.origin_by_consumers]
│   └── RequestRefusedError     the API returned an error to a client, with advice [client.jetstream_api]
├── BusError                    the connection to nats-server lacks something; names the fix
│   ├── LoginRefusedError       a nats-server does not accept the credentials
│   ├── NoResponderError        no service answers a task's request [replication.worker.client]
│   ├── ReplyTimeoutError       a task's request was not answered in time [replication.worker.client]
│   └── UnsuitableError         the origin cannot be read this way [replication.worker.client]
├── CorruptionError             stored bytes whose checksum does not match
│   └── MissingLogError         the end of a stream's log is missing [stream.missing_log]
├── DiskError                   the disk refused an operation
│   ├── JournalError            the journal did not do what was asked [journal.head_journal]
│   └── ObjectError             the object store refused an operation [objects.object_error]
├── FencedError                 another engine has taken over the store
├── NewerFormatError            a newer release wrote the file
├── SettingsError               a setting is unknown or invalid
│   └── OutageNameError         a site or a link that the file does not have [site.outages]
├── StoreLockedError            another engine owns the store
│   Storage
├── ArchiveError                the bytes are not a complete archive [table.archive_part]
├── CatalogError                the catalog cannot be used [control.catalog_file]
├── ConflictError               another writer changed the table first [table.delta_log]
├── CursorMovedError            another copy moved the cursor [stream.replica.importer]
├── CursorVersionError          a newer release wrote the cursor [model.cursor]
├── IdentityError               a stream's directory is missing or another stream's [control.directories]
│   └── UnreadableIdentityError the identity of a stream's directory is unreadable [control.directories]
├── NotResidentError            the event loop needs what is in a bucket [stream.view]
├── SealError                   a sealed file is damaged or of an unknown version [model.sealed]
│   └── NewerSealError          a newer release wrote the sealed file [model.sealed]
├── StagedFileError             a receipt names a wrong staged file [upstreams.staging]
├── TablePlaceError             a table is not where the store expects it [table.bucket_tables]
├── UnfitBucketError            a bucket lacks what a store needs [objects.preflight]
├── UnfitJournalError           a journal cannot hold the store [journal.head_journal]
│   └── MissingJournalError     there is no such journal [journal.head_journal]
├── UnknownChangeError          a stored consumer change has an unknown version [delivery.change]
├── WrittenVersionError         a newer release wrote the record of a query [model.written]
│   Requests
├── BadPullRequestError         a pull request is malformed [wire.pull_request]
├── BulkRefusedError            the stream does not take messages of a bulk write [stream.bulk.staged_part]
├── BulkRequestError            a request of a bulk write is malformed [wire.bulk_requests]
├── BulkRowsError               the messages of a bulk write are malformed [wire.bulk_rows]
├── DeniedError                 the server's permissions refuse a request [bus.connection]
├── NoFlowError                 a client does not acknowledge snapshot chunks [api.snapshot]
├── NoInterestError             no client subscribes to the snapshot's subject [api.snapshot]
├── NoRespondersError           no service answers a request [bus.connection]
├── PipelineRequestError        a request about pipelines is refused [wire.pipeline]
├── ProtocolError               the peer sent bytes that are not a protocol frame [wire.frames]
├── Refusal                     a direct get is answered with a status [api.direct_request]
├── StalledError                a restoring client sends too little or too much [api.restore]
├── TransformError              a subject transform is invalid [model.transform]
│   Replication and Spark
├── CheckpointError             a pipeline's checkpoint does not fit [spark.pipelines.checkpoint]
├── DataLossError               messages are gone before a query read them [spark.offset]
├── DeadLetterError             dead letters cannot be stored [upstreams.dead_letter_box]
├── EngineUnreachableError             the engine does not answer the replicator [replication.exchange]
├── GoneError                   a file was replaced after the read was planned [spark.range_reader]
├── RefusedSqlError             SQL that a pipeline may not have [spark.pipelines.sql_check]
├── PipelineError               a row pipeline cannot run [upstreams.work_pipelines]
├── RowSqlError                 the SQL of a row pipeline is refused [replication.row_sql]
├── SinkError                   the engine refuses a bulk write [spark.bulk_client]
├── SparkLostError              the Spark session has ended [replication.spark]
├── SparkMissingError           Spark or Java is not installed [replication.spark]
├── SparkStartError             Spark does not start for a command [spark.quiet_session]
├── UnprovenError               a message lacks a valid proof of the secret [replication.proof]
│   NATS Streaming
├── MalformedError              the bytes are not a NATS Streaming message [wire.stan_messages]
├── RecordsError                the records of clients cannot be used [stan.records]
├── StanRefusedError            a request is refused with NATS Streaming's text [stan.refusals]
├── _WrongQueryError            a query option is not a number [stan.monitoring]
│   Commands and sites
├── CatchUpError                a source or mirror does not catch up in time [client.catch_up]
├── ChildError                  a process of a site does not become ready [site.child]
├── ConditionError              a condition is malformed or cannot be evaluated [model.condition]
├── CopyError                   a store cannot be copied, or a copy is wrong [store.copy_source]
├── EngineMissingError          a query library is not installed [lake.scanning]
├── LinkStateError              a link between sites stays up or down [site.outage_switch]
├── NotReadyError               a site lacks something, or it is in use [site.readiness]
├── QueryFailedError            DuckDB or Spark does not run a query [spark.session_query]
├── QueryRefusedError           SQL that the console does not run [console.query_guard]
└── UnreachableError            no server or no JetStream answers a client [client.jetstream_api]
"""

from __future__ import annotations

import os
from errno import EDQUOT, ENOSPC
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple


class Error(Exception):
    """Anything that Headwater reports to a caller."""

    retryable = False


class SettingsError(Error):
    """A setting is unknown or invalid."""


class BusError(Error):
    """The connection to nats-server lacks something; `fix` is the line of configuration that fixes it."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"{problem}\n  {fix}" if fix else problem)
        self.problem = problem
        self.fix = fix


class LoginRefusedError(BusError):
    """A nats-server does not accept the credentials, or requires some."""


class DiskError(Error):
    """The disk refused an operation on a file; data that was synced before is not affected."""

    retryable = True

    def __init__(self, path: Path, operation: str, errno: int) -> None:
        self.path = path
        self.operation = operation
        self.errno = errno
        reason = "the disk is full" if self.full else os.strerror(errno).lower()
        super().__init__(f"cannot {operation} {_shown(path)}: {reason}")

    @property
    def full(self) -> bool:
        """Return whether there is no space left, on the disk or in the quota."""
        return self.errno in (ENOSPC, EDQUOT)


def _shown(path: Path) -> str:
    """Return a path up to its partitions: data files have long random names, and each attempt another one."""
    kept = list(takewhile(lambda part: "=" not in part, path.parts))
    return str(path) if len(kept) == len(path.parts) else f"a file in {Path(*kept)}"


class CorruptionError(Error):
    """Stored bytes are not what was written; they are never served."""

    def __init__(self, path: Path | str, offset: int, what: str) -> None:
        super().__init__(f"{path} is damaged at byte {offset}: {what}")
        self.path = Path(path)
        self.offset = offset
        self.what = what


class NewerFormatError(Error):
    """A newer release wrote the file: this one does not read, truncate or remove it."""

    def __init__(self, what: str, found: object, known: object) -> None:
        super().__init__(
            f"{what} has version {found}, this Headwater knows up to {known}: "
            "it was written by a newer release; start that one"
        )
        self.found = found
        self.known = known


class FencedError(Error):
    """Another engine has taken over the store; this one never stores anything again."""

    def __init__(self, store: Path, epoch: int, what: str) -> None:
        super().__init__(f"the store {store} was taken from this engine (epoch {epoch}): {what}")
        self.store = store
        self.epoch = epoch


class StoreLockedError(Error):
    """Another engine owns the store."""

    retryable = True

    def __init__(self, store: Path, owner: str) -> None:
        self.store = store
        self.owner = owner
        who = f"the engine with process id {owner}" if owner else "another engine"
        super().__init__(f"the store {store} is in use by {who}; stop it first, or choose another store")


class ErrorRow(NamedTuple):
    """One kind of API error: its name here, and the numbers and text a client sees."""

    name: str
    code: int
    err_code: int
    description: str


class ApiError(Error):
    """An error that is returned to a client, with JetStream's codes and description."""

    def __init__(self, name: str, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.name = name
        self.code = code
        self.err_code = err_code
        self.description = description
        self.retryable = code in (429, 503)


def api_error(name: str, **values: object) -> ApiError:
    """Return the API error of this name, with its {placeholders} filled."""
    row = _BY_NAME[name]
    return ApiError(row.name, row.code, row.err_code, row.description.format(**values))


# One row per line: err_code, code, name, description. Names follow the protocol's constants; clients compare
# the numbers and descriptions.
_TABLE = """
10002 400 account_resources_exceeded: resource limits exceeded for account
10003 400 bad_request: bad request
10008 503 cluster_not_avail: JetStream system temporarily unavailable
10010 503 cluster_required: JetStream clustering support required
10012 500 consumer_create: {err}
10013 400 consumer_name_exist: consumer name already in use
10014 404 consumer_not_found: consumer not found
10015 400 snapshot_deliver_subject_invalid: deliver subject not valid
10016 400 consumer_durable_name_not_in_subject: consumer expected to be durable but no durable name set in subject
10017 400 consumer_durable_name_not_match_subject: consumer name in subject does not match durable name in request
10018 400 consumer_durable_name_not_set: consumer expected to be durable but a durable name was not set
10019 400 consumer_ephemeral_with_durable_in_subject: consumer expected to be ephemeral but detected a durable name set in subject
10020 400 consumer_ephemeral_with_durable_name: consumer expected to be ephemeral but a durable name was set in request
10021 400 stream_external_api_overlap: stream external api prefix {prefix} must not overlap with {subject}
10022 400 stream_external_del_prefix_overlaps: stream external delivery prefix {prefix} overlaps with stream subject {subject}
10023 503 insufficient_resources: insufficient resources
10024 400 stream_invalid_external_delivery_subj: stream external delivery prefix {prefix} must not contain wildcards
10025 400 invalid_json: invalid JSON: {err}
10026 400 maximum_consumers_limit: maximum consumers limit reached
10027 400 maximum_streams_limit: maximum number of streams reached
10028 500 memory_resources_exceeded: insufficient memory resources available
10029 500 mirror_consumer_setup_failed: {err}
10030 400 mirror_max_message_size_too_big: stream mirror must have max message size >= source
10031 400 mirror_with_sources: stream mirrors can not also contain other sources
10032 400 mirror_with_start_seq_and_time: stream mirrors can not have both start seq and start time configured
10033 400 mirror_with_subject_filters: stream mirrors can not contain filtered subjects
10034 400 mirror_with_subjects: stream mirrors can not contain subjects
10037 404 no_message_found: no message found
10038 400 not_empty_request: expected an empty request payload
10039 503 not_enabled_for_account: JetStream not enabled for account
10042 500 restore_subscribe_failed: JetStream unable to subscribe to restore snapshot {subject}: {err}
10043 400 sequence_not_found: sequence {seq} not found
10045 500 source_consumer_setup_failed: {err}
10046 400 source_max_message_size_too_big: stream source must have max message size >= target
10047 500 storage_resources_exceeded: insufficient storage resources available
10049 500 stream_create: {err}
10050 500 stream_delete: {err}
10051 500 stream_general_error: {err}
10052 500 bad_config: {err}
10053 500 stream_limits: {err}
10054 400 stream_message_exceeds_maximum: message size exceeds maximum allowed
10055 400 stream_mirror_not_updatable: stream mirror configuration can not be updated
10056 400 stream_mismatch: stream name in subject does not match request
10057 500 stream_msg_delete_failed: {err}
10058 400 stream_name_exist: stream name already in use with a different configuration
10059 404 stream_not_found: stream not found
10060 400 stream_not_match: expected stream does not match
10062 500 stream_restore: restore failed: {err}
10064 500 stream_snapshot: snapshot failed: {err}
10065 400 stream_subject_overlap: subjects overlap with an existing stream
10069 500 stream_update: {err}
10070 400 stream_wrong_last_msg_id: wrong last msg ID: {id}
10071 400 stream_wrong_last_sequence: wrong last sequence: {seq}
10072 500 temp_storage_failed: JetStream unable to open temp storage for restore
10074 500 stream_replicas_not_supported: replicas > 1 not supported in non-clustered mode
10076 503 not_enabled: JetStream not enabled
10077 503 stream_store_failed: {err}
10078 400 consumer_config_required: consumer config required
10079 400 consumer_deliver_to_wildcards: consumer deliver subject has wildcards
10080 400 consumer_push_max_waiting: consumer in push mode can not set max waiting
10081 400 consumer_deliver_cycle: consumer deliver subject forms a cycle
10082 400 consumer_max_pending_ack_policy_required: consumer requires ack policy for max ack pending
10083 400 consumer_small_heartbeat: consumer idle heartbeat needs to be >= 100ms
10084 400 consumer_pull_requires_ack: consumer in pull mode requires explicit ack policy on workqueue stream
10085 400 consumer_pull_not_durable: consumer in pull mode requires a durable name
10086 400 consumer_pull_with_rate_limit: consumer in pull mode can not have rate limit set
10087 400 consumer_max_waiting_negative: consumer max waiting needs to be positive
10088 400 consumer_hb_requires_push: consumer idle heartbeat requires a push based consumer
10089 400 consumer_fc_requires_push: consumer flow control requires a push based consumer
10090 400 consumer_direct_requires_push: consumer direct requires a push based consumer
10091 400 consumer_direct_requires_ephemeral: consumer direct requires an ephemeral consumer
10092 400 consumer_on_mapped: consumer direct on a mapped consumer
10093 400 consumer_filter_not_subset: consumer filter subject is not a valid subset of the interest subjects
10094 400 consumer_invalid_policy: {err}
10095 400 consumer_invalid_sampling: failed to parse consumer sampling configuration: {err}
10096 500 stream_invalid: stream not valid
10097 400 stream_header_exceeds_maximum: header size exceeds maximum allowed of 64k
10098 400 consumer_wq_requires_explicit_ack: workqueue stream requires explicit ack
10099 400 consumer_wq_multiple_unfiltered: multiple non-filtered consumers not allowed on workqueue stream
10100 400 consumer_wq_consumer_not_unique: filtered consumer not unique on workqueue stream
10101 400 consumer_wq_consumer_not_deliver_all: consumer must be deliver all on workqueue stream
10102 400 consumer_name_too_long: consumer name is too long, maximum allowed is {max}
10103 400 consumer_bad_durable_name: durable name can not contain '.', '*', '>'
10104 500 consumer_store_failed: error creating store for consumer: {err}
10105 400 consumer_existing_active: consumer already exists and is still active
10106 400 consumer_replacement_with_different_name: consumer replacement durable config not the same
10107 400 consumer_description_too_long: consumer description is too long, maximum allowed is {max}
10108 400 consumer_with_flow_control_needs_heartbeats: consumer with flow control also needs heartbeats
10109 400 stream_sealed: invalid operation on sealed stream
10110 500 stream_purge_failed: {err}
10111 500 stream_rollup_failed: {err}
10112 400 consumer_invalid_deliver_subject: invalid push consumer deliver subject
10113 400 stream_max_bytes_required: account requires a stream config to have max bytes set
10114 400 consumer_max_request_batch_negative: consumer max request batch needs to be > 0
10115 400 consumer_max_request_expires_too_small: consumer max request expires needs to be >= 1ms
10116 400 consumer_max_deliver_backoff: max deliver is required to be > length of backoff values
10117 500 stream_info_max_subjects: subject details would exceed maximum allowed
10118 500 stream_offline: stream is offline
10119 500 consumer_offline: consumer is offline
10120 400 no_limits: no JetStream default or applicable tiered limit present
10121 400 consumer_max_pending_ack_excess: consumer max ack pending exceeds system limit of {limit}
10122 400 stream_max_stream_bytes_exceeded: stream max bytes exceeds account limit max stream bytes
10123 400 stream_move_and_scale: can not move and scale a stream in a single update
10124 400 stream_move_in_progress: stream move already in progress
10125 400 consumer_max_request_batch_exceeded: consumer max request batch exceeds server limit of {limit}
10126 400 consumer_replicas_exceeds_stream: consumer config replica count exceeds parent stream
10127 400 consumer_name_contains_path_separators: Consumer name can not contain path separators
10128 400 stream_name_contains_path_separators: Stream name can not contain path separators
10130 400 stream_name_exist_restore_failed: stream name already in use, cannot restore
10131 400 consumer_create_filter_subject_mismatch: Consumer create request did not match filtered subject from create subject
10132 400 consumer_create_durable_and_name_mismatch: Consumer Durable and Name have to be equal if both are provided
10133 400 replicas_count_cannot_be_negative: replicas count cannot be negative
10134 400 consumer_replicas_should_match_stream: consumer config replicas must match interest retention stream's replicas
10135 400 consumer_metadata_length: consumer metadata exceeds maximum size of {limit}
10136 400 consumer_duplicate_filter_subjects: consumer cannot have both FilterSubject and FilterSubjects specified
10137 400 consumer_multiple_filters_not_allowed: consumer with multiple subject filters cannot use subject based API
10138 400 consumer_overlapping_subject_filters: consumer subject filters cannot overlap
10139 400 consumer_empty_filter: consumer filter in FilterSubjects cannot be empty
10140 400 source_duplicate_detected: duplicate source configuration detected
10141 400 source_invalid_stream_name: sourced stream name is invalid
10142 400 mirror_invalid_stream_name: mirrored stream name is invalid
10143 400 mirror_with_first_seq: stream mirrors can not have first sequence configured
10144 400 source_multiple_filters_not_allowed: source with multiple subject transforms cannot also have a single subject filter
10145 400 source_invalid_subject_filter: source transform source: {err}
10146 400 source_invalid_transform_destination: source transform: {err}
10147 400 source_overlapping_subject_filters: source filters can not overlap
10148 400 consumer_already_exists: consumer already exists
10149 400 consumer_does_not_exist: consumer does not exist
10150 400 mirror_multiple_filters_not_allowed: mirror with multiple subject transforms cannot also have a single subject filter
10151 400 mirror_invalid_subject_filter: mirror transform source: {err}
10152 400 mirror_overlapping_subject_filters: mirror subject filters can not overlap
10153 400 consumer_inactive_threshold_excess: consumer inactive threshold exceeds system limit of {limit}
10154 400 mirror_invalid_transform_destination: mirror transform: {err}
10155 400 stream_transform_invalid_source: stream transform source: {err}
10156 400 stream_transform_invalid_destination: stream transform: {err}
10157 400 pedantic: pedantic mode: {err}
10158 409 stream_duplicate_message_conflict: duplicate message id is in process
10159 400 consumer_priority_policy_without_group: Setting PriorityPolicy requires at least one PriorityGroup to be set
10160 400 consumer_invalid_priority_group: Provided priority group does not exist for this consumer
10161 400 consumer_empty_group_name: Group name cannot be an empty string
10162 400 consumer_invalid_group_name: Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters
10163 503 stream_expected_last_seq_per_subject_not_ready: expected last sequence per subject temporarily unavailable
10164 400 stream_wrong_last_sequence_constant: wrong last sequence
10165 400 message_ttl_invalid: invalid per-message TTL
10166 400 message_ttl_disabled: per-message TTL is disabled
10167 429 stream_too_many_requests: too many requests
10168 400 message_incr_disabled: message counters is disabled
10169 400 message_incr_missing: message counter increment is missing
10170 400 message_incr_payload: message counter has payload
10171 400 message_incr_invalid: message counter increment is invalid
10172 400 message_counter_broken: message counter is broken
10173 400 mirror_with_counters: stream mirrors can not also calculate counters
10174 400 atomic_publish_disabled: atomic publish is disabled
10175 400 atomic_publish_missing_seq: atomic publish sequence is missing
10176 400 atomic_publish_incomplete_batch: atomic publish batch is incomplete
10177 400 atomic_publish_unsupported_header_batch: atomic publish unsupported header used: {header}
10178 400 consumer_push_with_priority_group: priority groups can not be used with push consumers
10179 400 atomic_publish_invalid_batch_id: atomic publish batch ID is invalid
10180 412 stream_min_last_seq: min last sequence
10181 400 consumer_ack_policy_invalid: consumer ack policy invalid
10182 400 consumer_replay_policy_invalid: consumer replay policy invalid
10183 400 consumer_ack_wait_negative: consumer ack wait needs to be positive
10184 400 consumer_back_off_negative: consumer backoff needs to be positive
10185 412 required_api_level: JetStream minimum api level required
10186 400 mirror_with_msg_schedules: stream mirrors can not also schedule messages
10187 400 source_with_msg_schedules: stream source can not also schedule messages
10188 400 message_schedules_disabled: message schedules is disabled
10189 400 message_schedules_pattern_invalid: message schedules pattern is invalid
10190 400 message_schedules_target_invalid: message schedules target is invalid
10191 400 message_schedules_ttl_invalid: message schedules invalid per-message TTL
10192 400 message_schedules_rollup_invalid: message schedules invalid rollup
10193 400 stream_expected_last_seq_per_subject_invalid: missing sequence for expected last sequence per subject
10194 500 stream_offline_reason: stream is offline: {err}
10195 500 consumer_offline_reason: consumer is offline: {err}
10196 400 consumer_priority_group_with_policy_none: consumer can not have priority groups when policy is none
10197 400 consumer_pinned_ttl_without_priority_policy_none: PinnedTTL cannot be set when PriorityPolicy is none
10198 400 mirror_with_atomic_publish: stream mirrors can not also use atomic publishing
10199 400 atomic_publish_too_large_batch: atomic publish batch is too large: {size}
10200 400 atomic_publish_invalid_batch_commit: atomic publish batch commit is invalid
10201 400 atomic_publish_contains_duplicate_message: atomic publish batch contains duplicate message id
10203 400 message_schedules_source_invalid: message schedules source is invalid
10204 400 consumer_invalid_reset: invalid reset: {err}
10205 400 batch_publish_disabled: batch publish is disabled
10206 400 batch_publish_invalid_pattern: batch publish pattern is invalid
10207 400 batch_publish_invalid_batch_id: batch publish ID is invalid
10208 400 batch_publish_unknown_batch_id: batch publish ID unknown
10209 400 mirror_with_batch_publish: stream mirrors can not also use batch publishing
10210 429 atomic_publish_too_many_inflight: atomic publish too many inflight
10211 429 batch_publish_too_many_inflight: batch publish too many inflight
10212 400 message_schedules_scheduler_invalid: message schedules invalid scheduler
10213 400 mirror_durable_consumer_cfg_invalid: stream mirror consumer config is invalid
10214 400 mirror_consumer_requires_ack_fc: stream mirror consumer requires flow control ack policy
10215 400 source_durable_consumer_cfg_invalid: stream source consumer config is invalid
10216 400 source_durable_consumer_duplicate_detected: duplicate stream source consumer detected
10217 400 source_consumer_requires_ack_fc: stream source consumer requires flow control ack policy
10218 400 consumer_ack_fc_requires_push: flow control ack policy requires a push based consumer
10219 400 consumer_ack_fc_requires_fc: flow control ack policy requires flow control
10220 400 consumer_ack_fc_requires_max_ack_pending: flow control ack policy requires max ack pending
10221 400 consumer_ack_fc_requires_no_ack_wait: flow control ack policy requires unset ack wait
10222 400 consumer_ack_fc_requires_no_max_deliver: flow control ack policy requires unset max deliver
10223 400 message_schedules_time_zone_invalid: message schedules time zone is invalid
10225 400 consumer_stream_identity_mismatch: consumer's stream identity does not match: {msg}
10227 400 message_source_hdr_not_allowed: message stream source header is not allowed
"""  # noqa: E501


def _rows(table: str) -> tuple[ErrorRow, ...]:
    """Return the rows of the table."""
    rows = []
    for line in table.strip().splitlines():
        key, description = line.split(": ", 1)
        err_code, code, name = key.split()
        rows.append(ErrorRow(name, int(code), int(err_code), description))
    return tuple(rows)


ROWS = _rows(_TABLE)
_BY_NAME = {row.name: row for row in ROWS}
