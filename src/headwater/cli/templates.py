"""Templates with functions such as `{{Count}}`, filled for each message, as in the `nats` command."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from headwater.errors import Error

HELP = """\b
Bodies, subjects and header values may contain:
  {{Count}}         the number of the message, from 1
  {{Time}}          the time of day, as 3:04PM
  {{TimeStamp}}     the time in RFC 3339
  {{Unix}}          seconds since 1970
  {{UnixNano}}      nanoseconds since 1970
  {{ID}}            a unique id
  {{Random 10 20}}  random letters and digits, 10 to 20 of them
"""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MAX_RANDOM = 64 * 1024 * 1024
_ID_LENGTH = 22
_PART = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)


class Moment(NamedTuple):
    """The values for filling a template once."""

    number: int
    at: datetime
    request: str | None = None


Part = str | Callable[[Moment], str]


class Template:
    """A text with functions in braces, checked when it is made."""

    def __init__(self, text: str, *, parts: bool = True, request: bool = False) -> None:
        self._parts = list(_parts(text, request)) if parts and "{{" in text else [text]

    @property
    def plain(self) -> bool:
        """Return whether the text contains no functions."""
        return all(isinstance(part, str) for part in self._parts)

    def fill(self, moment: Moment) -> str:
        """Return the text for this message."""
        return "".join(part if isinstance(part, str) else part(moment) for part in self._parts)


def _parts(text: str, request: bool) -> Iterator[Part]:
    """Yield the text's parts. A dash inside the braces trims the space next to them, as in Go."""
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
        raise Error(f"the template {rest.strip()!r} has no closing braces: add them, or pass --no-templates")
    yield rest.lstrip() if eat_left else rest


def _function(words: str, shown: str, request: bool) -> Part:
    """Return the function in a pair of braces."""
    name, *arguments = words.split() or [""]
    name = name.removeprefix(".")
    if name == "Random" and len(arguments) == 2 and all(a.isdecimal() for a in arguments):
        shortest, longest = sorted(map(int, arguments))
        if longest > MAX_RANDOM:
            raise Error(f"{shown} is longer than a message can be: use at most {MAX_RANDOM}")
        return lambda moment: random_text(shortest, longest)
    quoted = re.fullmatch(r'"([^"\\]*)"|`([^`]*)`', words)
    if quoted:
        return quoted[1] or quoted[2] or ""
    if not arguments and name in _FUNCTIONS and (name != "Request" or request):
        return _FUNCTIONS[name]
    known = ", ".join([*(n for n in _FUNCTIONS if n not in ("Cnt", "Request")), "Random MIN MAX"])
    raise Error(f"unknown template function {shown}: use {known}, or pass --no-templates")


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
    """Return random letters and digits of a length between these bounds."""
    length = shortest + secrets.randbelow(longest - shortest + 1)
    return "".join(LETTERS[byte % len(LETTERS)] for byte in secrets.token_bytes(length))


def _nanoseconds(at: datetime) -> int:
    """Return nanoseconds since the epoch, with the precision of the time."""
    return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000
