"""The schema of a stream's payload: a JSON Schema in the stream's metadata, and the types of its fields.

Any client can read or write it: the metadata key `headwater.schema` holds
`{"version": 1, "format": "json", "schema": {…}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headwater.errors import SettingsError

KEY = "headwater.schema"
VERSION = 1
_DEEPEST = 32
"""Schemas are written by clients; a reference to itself would never end."""

Kind = Literal["string", "integer", "number", "boolean", "time", "json", "list", "object"]
_SPARK = {
    "string": "STRING",
    "integer": "BIGINT",
    "number": "DOUBLE",
    "boolean": "BOOLEAN",
    "time": "TIMESTAMP",
    "json": "STRING",
}
_DUCKDB = {**_SPARK, "string": "VARCHAR", "json": "JSON", "time": "TIMESTAMPTZ"}


@dataclass(frozen=True)
class PayloadType:
    """The type of a payload or of a field in it; `json` is a value that is kept as text."""

    kind: Kind
    item: PayloadType | None = None
    """Of a list."""
    fields: tuple[tuple[str, PayloadType], ...] = ()
    """Of an object."""

    def spark(self) -> str:
        """Return the type as Spark SQL writes it."""
        if self.item is not None:
            return f"ARRAY<{self.item.spark()}>"
        if self.kind == "object":
            return "STRUCT<" + ", ".join(f"{quoted(name)}: {t.spark()}" for name, t in self.fields) + ">"
        return _SPARK[self.kind]

    def duckdb(self) -> Any:
        """Return the type as the structure that DuckDB's `json_transform` takes."""
        if self.item is not None:
            return [self.item.duckdb()]
        if self.kind == "object":
            return {name: each.duckdb() for name, each in self.fields}
        return _DUCKDB[self.kind]


def type_of(schema: Any) -> PayloadType:
    """Return the type of a payload that a JSON Schema describes; raise if it is no object with properties."""
    found = _type(schema, schema, 0)
    if found.kind != "object":
        raise SettingsError('the JSON Schema must have "type": "object" and at least one property')
    return found


def spark_fields(schema: Any) -> str:
    """Return the fields of a payload that a JSON Schema describes as Spark's DDL."""
    return ", ".join(f"{quoted(name)} {kind.spark()}" for name, kind in type_of(schema).fields)


def stored(schema: Any) -> str:
    """Return a JSON Schema as the metadata of a stream holds it; raise if it cannot be used."""
    type_of(schema)
    return json.dumps({"version": VERSION, "format": "json", "schema": schema}, separators=(",", ":"))


def schema_in(metadata: Mapping[str, str] | None) -> Any:
    """Return the JSON Schema in a stream's metadata; None if there is none."""
    text = (metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        held = json.loads(text)
        version, schema = held["version"], held["schema"]
    except (ValueError, TypeError, KeyError):
        raise SettingsError(f"the metadata {KEY} of the stream is not a schema") from None
    if version != VERSION or held.get("format") != "json":
        raise SettingsError(f"the metadata {KEY} has version {version}; this release knows {VERSION}")
    return schema


def _type(schema: Any, root: Any, depth: int) -> PayloadType:
    if depth > _DEEPEST:
        raise SettingsError(f"the JSON Schema is nested more than {_DEEPEST} times, or refers to itself")
    if not isinstance(schema, Mapping):
        return PayloadType("json")
    if "$ref" in schema:
        return _type(_referred(schema["$ref"], root), root, depth + 1)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            choices = [each for each in schema[union] if each != {"type": "null"}]
            return _type(choices[0], root, depth + 1) if len(choices) == 1 else PayloadType("json")
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind not in (None, "null")]
    if not named and "properties" in schema:
        named = ["object"]
    return _plain(named[0], schema, root, depth) if len(named) == 1 else PayloadType("json")


def _plain(kind: Any, schema: Mapping[str, Any], root: Any, depth: int) -> PayloadType:
    if kind == "object":
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return PayloadType("json")
        fields = ((str(name), _type(each, root, depth + 1)) for name, each in properties.items())
        return PayloadType("object", fields=tuple(fields))
    if kind == "array":
        return PayloadType("list", item=_type(schema.get("items"), root, depth + 1))
    if kind == "string":
        return PayloadType("time" if schema.get("format") == "date-time" else "string")
    if kind in ("integer", "number", "boolean"):
        return PayloadType(kind)
    raise SettingsError(f"the JSON Schema has the unknown type {kind!r}")


def _referred(reference: Any, root: Any) -> Any:
    """Return the part of the schema that a reference such as `#/$defs/Order` names."""
    found = root
    for name in str(reference).removeprefix("#/").split("/"):
        if not str(reference).startswith("#/") or not isinstance(found, Mapping) or name not in found:
            raise SettingsError(f"the JSON Schema refers to {reference!r}, which is not in it")
        found = found[name]
    return found


def quoted(name: str) -> str:
    """Return a name as Spark SQL writes an identifier."""
    return "`" + name.replace("`", "``") + "`"
