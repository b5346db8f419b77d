"""Request bodies decoded like nats-server does: with Go's leniency, and Go's error texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from headwater.errors import ApiError, api_error
from headwater.model import times

Reader = Callable[[Any, str], Any]
"""Converts a parsed JSON value at this path; null was handled before, except for enums."""


class _Number(str):
    """A number as text, since Go reads integers from the text."""


class _Object(list[tuple[str, Any]]):
    """An object's members in order, including repeated keys."""


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Object,
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=lambda name: _refuse(
        f"invalid character {_quoted(name[0])} looking for beginning of value"
    ),
    strict=True,
)
_BLANKS = " \t\r\n"


def decode(body: bytes, fields: Mapping[str, Reader], root: str) -> dict[str, Any]:
    """Return the members of the body by wire name, without those that are null.

    An empty body is an empty object, and several consecutive objects are merged, as in Go's decoder loop.
    """
    text = body.decode("utf-8", errors="replace")
    read = struct(fields, f"server.{root}")
    members: dict[str, Any] = {}
    position = _skip_blanks(text, 0)
    while position < len(text):
        value, position = _parse(text, position)
        if value is not None:
            members |= read(value, root)
        position = _skip_blanks(text, position)
    return members


def decode_one(body: bytes, fields: Mapping[str, Reader], root: str) -> dict[str, Any]:
    """Return the members of a body that is one object by wire name, ignoring other keys."""
    text = body.decode("utf-8", errors="replace")
    value, position = _parse(text, _skip_blanks(text, 0))
    position = _skip_blanks(text, position)
    if position < len(text):
        _refuse(f"invalid character {_character(text[position])} after top-level value")
    members: dict[str, Any] = struct(fields, f"server.{root}", strict=False)(value, root)
    return members


def string(value: Any, path: str) -> str:
    """Read a string."""
    if type(value) is not str:
        _mismatch(value, path, "string")
    return str(value)


def boolean(value: Any, path: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        _mismatch(value, path, "bool")
    return bool(value)


def integer(name: str, low: int, high: int) -> Reader:
    """Return a reader of integers between the bounds; a fraction or an exponent is refused."""

    def read(value: Any, path: str) -> int:
        if not isinstance(value, _Number):
            _mismatch(value, path, name)
        if not value.removeprefix("-").isdigit() or len(value) > 20 or not low <= int(value) <= high:
            _mismatch(value, path, name, f" {value}")
        return int(value)

    return read


int32 = integer("int32", -(2**31), 2**31 - 1)
int64 = integer("int64", -(2**63), 2**63 - 1)
int_ = integer("int", -(2**63), 2**63 - 1)
uint64 = integer("uint64", 0, 2**64 - 1)
duration = integer("time.Duration", -(2**63), 2**63 - 1)


def time(value: Any, path: str) -> int:
    """Read a time as nanoseconds since the epoch."""
    if type(value) is not str:
        _mismatch(value, path, "time.Time")
    ns = times.parse_time(value)
    if ns is None:
        _refuse(f'parsing time {_quoted(value)} as "2006-01-02T15:04:05Z07:00": cannot parse it')
    return ns


def enum(members: Mapping[str, Any], *, any_case: bool = False, complaint: str = "") -> Reader:
    """Return a reader of one of these words; unlike in other readers null is refused.

    `complaint` is the error for any other word, which replaces `{raw}` in it.
    """

    def read(value: Any, path: str) -> Any:
        word = value.lower() if any_case and type(value) is str else value
        if type(word) is not str or word not in members:
            raw = _raw(value)
            _refuse(complaint.format(raw=raw) or f"can not unmarshal {_quoted(raw)}")
        return members[word]

    read.takes_null = True  # type: ignore[attr-defined]
    return read


def array(item: Reader, go_type: str, null: Any) -> Reader:
    """Return a reader of an array as a tuple; a null item becomes `null`."""

    def read(value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list) or isinstance(value, _Object):
            _mismatch(value, path, go_type)
        return tuple(null if v is None else item(v, f"{path}.{i}") for i, v in enumerate(value))

    return read


def string_map(value: Any, path: str) -> dict[str, str]:
    """Read an object whose members are strings."""
    if not isinstance(value, _Object):
        _mismatch(value, path, "map[string]string")
    return {key: "" if member is None else string(member, f"{path}.{key}") for key, member in value}


def struct(
    fields: Mapping[str, Reader], go_type: str, make: Callable[..., Any] = dict, *, strict: bool = True
) -> Reader:
    """Return a reader of an object with these fields; keys are case-insensitive.

    Another key is refused if `strict`, else ignored.
    """

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, _Object):
            _mismatch(value, path, go_type)
        members = {}
        for key, member in value:
            name = key if key in fields else key.lower()
            reader = fields.get(name)
            if reader is None and not strict:
                continue
            if reader is None:
                _refuse(f"json: unknown field {_quoted(key)}")
            if member is not None or hasattr(reader, "takes_null"):
                members[name] = reader(member, f"{path}.{key}")
        return make(**members)

    return read


def _parse(text: str, position: int) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise api_error("invalid_json", err="exceeded max depth") from None


def _syntax_error(text: str, error: json.JSONDecodeError) -> ApiError:
    """Return the error with Go's text, as far as Python's parser reports where and why it stopped."""
    position = _skip_blanks(text, error.pos)
    rest = text[position:]
    literal_cut_off = any(word.startswith(rest) for word in ("null", "true", "false"))
    if not rest or error.msg.startswith("Unterminated") or literal_cut_off:
        return api_error("invalid_json", err="unexpected EOF")
    where = "looking for beginning of value"
    if "property name" in error.msg:
        where = "looking for beginning of object key string"
    elif "','" in error.msg:
        where = "after object key:value pair"
    elif "':'" in error.msg:
        where = "after object key"
    offset = len(text[:position].encode()) + 1
    return api_error(
        "invalid_json", err=f"invalid character {_character(rest[0])} {where} at offset {offset}"
    )


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _mismatch(value: Any, path: str, go_type: str, shown: str = "") -> NoReturn:
    if "." not in path:
        _refuse(f"json: cannot unmarshal {_kind(value)} into Go value of type {go_type}")
    # Go names the struct only if the last step of the path is a field of one.
    field = "" if path.rpartition(".")[2].isdigit() else "Go struct field "
    _refuse(f"json: cannot unmarshal {_kind(value)}{shown} into {field}{path} of type {go_type}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, _Number):
        return "number"
    if isinstance(value, _Object):
        return "object"
    return "array" if isinstance(value, list) else "string"


def _raw(value: Any) -> str:
    """Return the value as JSON text again."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_quoted(key)}:{_raw(member)}" for key, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_raw, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _character(char: str) -> str:
    return {"'": r"'\''", '"': "'\"'"}.get(char, f"'{char}'")


def _refuse(err: str) -> NoReturn:
    raise api_error("invalid_json", err=err)
