"""The protobuf messages of NATS Streaming, declared here field by field and built on import."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as DecodeError

from headwater.errors import Error

_Kind = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "string": _Kind.TYPE_STRING,
    "bytes": _Kind.TYPE_BYTES,
    "bool": _Kind.TYPE_BOOL,
    "int32": _Kind.TYPE_INT32,
    "int64": _Kind.TYPE_INT64,
    "uint32": _Kind.TYPE_UINT32,
    "uint64": _Kind.TYPE_UINT64,
}
_FIELDS = {
    "PubMsg": "1 clientID string, 2 guid string, 3 subject string, 4 reply string, 5 data bytes, "
    "6 connID bytes, 10 sha256 bytes",
    "PubAck": "1 guid string, 2 error string",
    "MsgProto": "1 sequence uint64, 2 subject string, 3 reply string, 4 data bytes, 5 timestamp int64, "
    "6 redelivered bool, 7 redeliveryCount uint32, 10 CRC32 uint32",
    "Ack": "1 subject string, 2 sequence uint64",
    "ConnectRequest": "1 clientID string, 2 heartbeatInbox string, 3 protocol int32, 4 connID bytes, "
    "5 pingInterval int32, 6 pingMaxOut int32",
    "ConnectResponse": "1 pubPrefix string, 2 subRequests string, 3 unsubRequests string, "
    "4 closeRequests string, 5 error string, 6 subCloseRequests string, 7 pingRequests string, "
    "8 pingInterval int32, 9 pingMaxOut int32, 10 protocol int32, 100 publicKey string",
    "Ping": "1 connID bytes",
    "PingResponse": "1 error string",
    # startPosition is an enumeration, which is an int32 on the wire; its numbers are StartPosition's.
    "SubscriptionRequest": "1 clientID string, 2 subject string, 3 qGroup string, 4 inbox string, "
    "5 maxInFlight int32, 6 ackWaitInSecs int32, 7 durableName string, 10 startPosition int32, "
    "11 startSequence uint64, 12 startTimeDelta int64",
    "SubscriptionResponse": "2 ackInbox string, 3 error string",
    "UnsubscribeRequest": "1 clientID string, 2 subject string, 3 inbox string, 4 durableName string",
    "CloseRequest": "1 clientID string",
    "CloseResponse": "1 error string",
    # Messages between servers; MsgType is an enumeration, too.
    "CtrlMsg": "1 MsgType int32, 2 ServerID string, 3 Data bytes, 4 RefID string",
}


class MalformedError(Error):
    """The bytes are not a message of the expected kind."""


def _build() -> dict[str, Any]:
    """Return the class of every message."""
    file = descriptor_pb2.FileDescriptorProto(name="headwater/stan.proto", package="pb", syntax="proto3")
    for name, declared in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in declared.split(", "):
            number, label, kind = field.split(" ")
            message.field.add(name=label, number=int(number), type=_KINDS[kind], label=_Kind.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"pb.{name}")) for name in _FIELDS
    }


_classes = _build()
PubMsg = _classes["PubMsg"]
PubAck = _classes["PubAck"]
MsgProto = _classes["MsgProto"]
Ack = _classes["Ack"]
ConnectRequest = _classes["ConnectRequest"]
ConnectResponse = _classes["ConnectResponse"]
Ping = _classes["Ping"]
PingResponse = _classes["PingResponse"]
SubscriptionRequest = _classes["SubscriptionRequest"]
SubscriptionResponse = _classes["SubscriptionResponse"]
UnsubscribeRequest = _classes["UnsubscribeRequest"]
CloseRequest = _classes["CloseRequest"]
CloseResponse = _classes["CloseResponse"]
CtrlMsg = _classes["CtrlMsg"]

NEW_ONLY, LAST_RECEIVED, TIME_DELTA, SEQUENCE, FIRST = range(5)
"""Where a subscription begins, the values of `startPosition`."""

PARTITIONING = 4
"""The kind of a CtrlMsg with which servers announce their channels."""


def decode(kind: Any, body: bytes) -> Any:
    """Return a message of a kind; refuse malformed bytes."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise MalformedError(str(error)) from None
