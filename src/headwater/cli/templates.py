"""Texts with `{{Count}}`-like parts that each message fills anew, in the manner of the `nats` command."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from headwater.errors import Error

HELP = """\b
Bodies, subjects and values of headers may hold:
  {{Count}}         the number of the message, from 1
  {{Time}}          the time of day, as 3:04PM
  {{TimeStamp}}     the time in RFC 3339
  {{Unix}}          seconds since 1970
  {{UnixNano}}      nanoseconds since 1970
  {{ID}}            a unique word
  {{Random 10 20}}  random letters and digits, 10 to 20 of them
"""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MAX_RANDOM = 64 * 1024 * 1024
_ID_LENGTH = 22
_PART = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)


class Moment(NamedTuple):
    """What one filling of a template may speak of."""

    number: int
    at: datetime
    request: str | None = None


Part = str | Callable[[Moment], str]


class Template:
    """A text whose parts in braces are known to make sense."""

    def __init__(self, text: str, *, parts: bool = True, request: bool = False) -> None:
        self._parts = list(_parts(text, request)) if parts and "{{" in text else [text]

    @property
    def plain(self) -> bool:
        """Return whether every filling gives the same text."""
        return all(isinstance(part, str) for part in self._parts)

    def fill(self, moment: Moment) -> str:
        """Return the text for this message."""
        return "".join(part if isinstance(part, str) else part(moment) for part in self._parts)


def _parts(text: str, request: bool) -> Iterator[Part]:
    """Yield the text's pieces; a dash inside the braces eats the space beside them, as in Go."""
    position = 0
    eat_left = False
    for found in _PART.finditer(text):
        between = text[position : found.start()]
        between = between.lstrip() if eat_left else between
        yield between.rstrip() if found[1] else between
        yield _function(found[2].strip(), found[0], request)
        position, eat_left = found.end(), bool(found[3])
    rest = text[position:]
    if "{{" in rest:
        raise Error(
            f"the template {rest.strip()!r} lacks its closing braces; --no-templates sends it as it is"
        )
    yield rest.lstrip() if eat_left else rest


def _function(words: str, shown: str, request: bool) -> Part:
    """Return what a pair of braces stands for."""
    name, *arguments = words.split() or [""]
    name = name.removeprefix(".")
    if name == "Random" and len(arguments) == 2 and all(a.isdecimal() for a in arguments):
        shortest, longest = sorted(map(int, arguments))
        if longest > MAX_RANDOM:
            raise Error(f"{shown} is longer than any message can be; ask for less than {MAX_RANDOM}")
        return lambda moment: random_text(shortest, longest)
    quoted = re.fullmatch(r'"([^"\\]*)"|`([^`]*)`', words)
    if quoted:
        return quoted[1] or quoted[2] or ""
    if not arguments and name in _FUNCTIONS and (name != "Request" or request):
        return _FUNCTIONS[name]
    known = ", ".join([*(n for n in _FUNCTIONS if n not in ("Cnt", "Request")), "Random MIN MAX"])
    raise Error(f"{shown} is not known in templates, only {known}; --no-templates sends it as it is")


_FUNCTIONS: Mapping[str, Callable[[Moment], str]] = {
    "Count": lambda moment: str(moment.number),
    "Cnt": lambda moment: str(moment.number),
    "Time": lambda moment: moment.at.strftime("%I:%M%p").lstrip("0"),
    "TimeStamp": lambda moment: moment.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
    "Unix": lambda moment: str(int(moment.at.timestamp())),
    "UnixNano": lambda moment: str(_nanoseconds(moment.at)),
    "ID": lambda moment: random_text(_ID_LENGTH, _ID_LENGTH),
    "Request": lambda moment: moment.request or "",
}


def random_text(shortest: int, longest: int) -> str:
    """Return letters and digits, at least and at most so many."""
    length = shortest + secrets.randbelow(longest - shortest + 1)
    return "".join(LETTERS[byte % len(LETTERS)] for byte in secrets.token_bytes(length))


def _nanoseconds(at: datetime) -> int:
    """Return nanoseconds since the epoch, as exact as the time is."""
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000
