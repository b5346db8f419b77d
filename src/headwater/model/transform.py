"""Subject transforms: a pattern, a destination built from its tokens, and the errors of invalid ones."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from headwater.errors import Error
from headwater.model.subject import Filter

Part = Callable[[list[bytes]], bytes]
"""Make one part of the destination from the tokens of a subject."""

_CACHE_LIMIT = 65_536
_FUNCTIONS = (
    "Wildcard",
    "Partition",
    "SplitFromLeft",
    "SplitFromRight",
    "SliceFromLeft",
    "SliceFromRight",
    "Right",
    "Left",
    "Split",
    "Random",
)
# The first letter of each word of a function's name may have either case.
_NAMES = "|".join(re.sub("[A-Z]", lambda m: f"[{m[0].lower()}{m[0]}]", name) for name in _FUNCTIONS)
_CALL = re.compile(rf"\{{\{{\s*({_NAMES})\s*\((.*)\)\s*\}}\}}", re.ASCII)
_COMMA = re.compile(r",\s*", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_BLANKS = frozenset(" \t\r\n\f")

_BAD = "invalid mapping destination"
_NOT_ENOUGH = f"{_BAD}: not enough arguments passed to the function"
_TOO_MANY = f"{_BAD}: too many arguments passed to the function"
_BAD_ARGUMENT = f"{_BAD}: function argument is invalid or in the wrong format"
_OUT_OF_RANGE = f"{_BAD}: wildcard index out of range"
_UNKNOWN = f"{_BAD}: unknown function"
_INVALID = f"{_BAD}: invalid transform"


class TransformError(Error):
    """An invalid transform, with nats-server's error text."""


class SubjectTransform:
    """A compiled transform; an empty `src` matches every subject, an empty `dest` leaves it unchanged."""

    def __init__(self, src: str, dest: str) -> None:
        self.src = src or ">"
        self.dest = dest
        self._filter = Filter(self.src)
        self._parts: list[Part] = []
        self._tail: int | None = None
        """The index from which all tokens are kept; None without `>`."""
        self._cache: dict[bytes, bytes] = {}
        """Results of the last subjects."""
        self._is_random = False
        """Whether the result differs each time, so that it is not cached."""
        self._is_identity = not dest or (self.src == ">" and dest == ">")
        if not self._is_identity:
            self._compile()

    def apply(self, subject: bytes) -> bytes | None:
        """Return the transformed subject, or None if this transform does not match it."""
        if not self._filter.matches(subject):
            return None
        if self._is_identity:
            return subject
        known = self._cache.get(subject)
        if known is None:
            tokens = subject.split(b".")
            parts = [part(tokens) for part in self._parts]
            if self._tail is not None:
                parts += tokens[self._tail :]
            known = b".".join(parts)
            if not self._is_random:
                self._remember(subject, known)
        return known

    def _remember(self, subject: bytes, transformed: bytes) -> None:
        if len(self._cache) >= _CACHE_LIMIT:
            self._cache.clear()
        self._cache[subject] = transformed

    def _compile(self) -> None:
        sources, destinations = self.src.split("."), self.dest.split(".")
        for tokens in (sources, destinations):
            if not all(tokens) or ">" in tokens[:-1]:
                raise TransformError("invalid subject")
        if "*" in destinations or (sources[-1] == ">") != (destinations[-1] == ">"):
            raise TransformError("invalid subject")
        wildcards = [index for index, token in enumerate(sources) if token == "*"]
        is_pattern = bool(wildcards) or sources[-1] == ">"
        for token in destinations:
            if token == ">":
                self._tail = len(sources) - 1
            else:
                self._parts.append(self._part(token, wildcards, is_pattern))

    def _part(self, token: str, wildcards: list[int], is_pattern: bool) -> Part:
        """Return the function that makes this token of the destination."""
        call = _read(token)
        if call is None:
            literal = token.encode()
            return lambda tokens: literal
        name, indexes, size, delimiter = call
        if name == "random":
            self._is_random = True
            return lambda tokens: _random(size)
        if not is_pattern:
            if name != "partition":
                raise _error(_OUT_OF_RANGE, token)
            return lambda tokens: _partition(b".".join(tokens), size)
        for index in indexes:
            if index > len(wildcards):
                raise _error(_OUT_OF_RANGE, f"{token}: [{index}]")
        # An index below 1 means the first token, as in nats-server.
        picks = [wildcards[index - 1] if index > 0 else 0 for index in indexes]
        if name == "partition":
            if not picks:
                return lambda tokens: _partition(b".".join(tokens), size)
            return lambda tokens: _partition(b"".join([tokens[pick] for pick in picks]), size)
        pick = picks[0]
        if name == "wildcard":
            return lambda tokens: tokens[pick]
        if name == "split":
            return lambda tokens: _split(tokens[pick], delimiter.encode())
        cut = _CUTS[name]
        return lambda tokens: cut(tokens[pick], size) if 0 < size < len(tokens[pick]) else tokens[pick]


def check_mapping(src: str, dest: str) -> None:
    """Raise nats-server's error for an invalid declared transform."""
    if not dest:
        return
    ended = False
    for token in dest.split("."):
        if not token or ended:
            raise _error(_INVALID, token)
        if _looks_like_call(token):
            if _CALL.search(token) is None:
                raise _error(_UNKNOWN, token)
        elif token == ">":
            ended = True
        elif not _BLANKS.isdisjoint(token):
            raise TransformError(_INVALID)
    SubjectTransform(src, dest)


def _looks_like_call(token: str) -> bool:
    return len(token.encode()) > 4 and token.startswith("{{") and token.endswith("}}")


def _read(token: str) -> tuple[str, list[int], int, str] | None:
    """Return function, indexes, number and delimiter of a destination token; None for a plain one."""
    if len(token) > 1 and token[0] == "$":
        index = _atoi(token[1:])
        return None if index is None else ("wildcard", [index], -1, "")
    if not _looks_like_call(token):
        return None
    call = _CALL.search(token)
    if call is None:
        raise _error(_UNKNOWN, token)
    name, args = call[1].lower(), _COMMA.split(call[2])
    if name == "wildcard":
        if args == [""]:
            raise _error(_NOT_ENOUGH, token)
        if len(args) > 1:
            raise _error(_TOO_MANY, token)
        return name, [_argument(args[0], token)], -1, ""
    if name == "partition":
        size, *indexes = (_argument(arg, token) for arg in args)
        return name, indexes, _int32(size, token), ""
    if name == "random":
        if len(args) != 1:
            raise _error(_NOT_ENOUGH, token)
        return name, [], _int32(_argument(args[0], token), token), ""
    if len(args) < 2:
        raise _error(_NOT_ENOUGH, token)
    if len(args) > 2:
        raise _error(_TOO_MANY, token)
    if name == "split":
        index = _argument(args[0], token)
        if " " in args[1]:
            raise _error(_BAD_ARGUMENT, token)
        return name, [index], -1, args[1]
    index, size = _argument(args[0], token), _argument(args[1], token)
    if not -(2**31) <= size < 2**31:
        raise _error(_BAD_ARGUMENT, token)
    return name, [index], size, ""


def _atoi(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else None


def _argument(text: str, token: str) -> int:
    number = _atoi(text.strip(" "))
    if number is None:
        raise _error(_BAD_ARGUMENT, token)
    return number


def _int32(number: int, token: str) -> int:
    """Return the number as Go converts it, which wraps below but fails above."""
    if number >= 2**31:
        raise _error(_BAD_ARGUMENT, token)
    return (number + 2**31) % 2**32 - 2**31


def _error(text: str, token: str) -> TransformError:
    return TransformError(f"{text} in {token}" if token else text)


def fnv1a(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash, which distributes subjects over partitions."""
    value = 0x811C9DC5
    for byte in key:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _partition(key: bytes, count: int) -> bytes:
    return b"%d" % (fnv1a(key) % (count & 0xFFFFFFFF)) if count else b"0"


def _random(count: int) -> bytes:
    return b"%d" % random.randrange(abs(count)) if count else b"0"


def _split(token: bytes, delimiter: bytes) -> bytes:
    pieces = token.split(delimiter) if delimiter else [c.encode() for c in token.decode(errors="replace")]
    made = pieces[0]
    for index, piece in enumerate(pieces[1:], start=1):
        # No dot before an empty piece, nor one in front because of an empty first piece.
        made += b"." + piece if piece and (index > 1 or pieces[0]) else piece
    return made


def _slice(token: bytes, first: int, size: int) -> bytes:
    """Return the token cut into pieces of this size after a first one."""
    pieces = [token[:first]] if first else []
    return b".".join(pieces + [token[at : at + size] for at in range(first, len(token), size)])


_CUTS: dict[str, Callable[[bytes, int], bytes]] = {
    "splitfromleft": lambda token, at: token[:at] + b"." + token[at:],
    "splitfromright": lambda token, at: token[:-at] + b"." + token[-at:],
    "slicefromleft": lambda token, size: _slice(token, 0, size),
    "slicefromright": lambda token, size: _slice(token, len(token) % size, size),
    "left": lambda token, size: token[:size],
    "right": lambda token, size: token[-size:],
}
