"""A JSON Schema becomes the types of columns, or is refused with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.errors import SettingsError
from headwater.model.payload_schema import KEY, schema_in, stored, type_of

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": ["number", "null"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "paid": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "buyer": {"$ref": "#/$defs/Buyer"},
        "any": {},
        "either": {"type": ["string", "integer"]},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {"Buyer": {"properties": {"na`me": {"type": "string"}}}},
}


def test_a_schema_is_a_struct_for_spark() -> None:
    assert type_of(ORDER).spark() == (
        "STRUCT<`id`: BIGINT, `amount`: DOUBLE, `note`: STRING, `paid`: BOOLEAN, `at`: TIMESTAMP, "
        "`tags`: ARRAY<STRING>, `buyer`: STRUCT<`na``me`: STRING>, `any`: STRING, `either`: STRING, "
        "`map`: STRING>"
    )


def test_a_schema_is_a_structure_for_duckdb() -> None:
    assert type_of(ORDER).duckdb() == {
        "id": "BIGINT",
        "amount": "DOUBLE",
        "note": "VARCHAR",
        "paid": "BOOLEAN",
        "at": "TIMESTAMPTZ",
        "tags": ["VARCHAR"],
        "buyer": {"na`me": "VARCHAR"},
        "any": "JSON",
        "either": "JSON",
        "map": "JSON",
    }


def test_a_schema_is_kept_in_metadata_with_a_version() -> None:
    text = stored(ORDER)
    assert json.loads(text)["version"] == 1
    assert schema_in({KEY: text, "other": "x"}) == ORDER
    assert schema_in({}) is None
    assert schema_in(None) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, 'must have "type": "object"'),
        ({"type": "object"}, "at least one property"),
        ([], 'must have "type": "object"'),
        ({"properties": {"a": {"type": "text"}}}, "unknown type 'text'"),
        ({"properties": {"a": {"$ref": "#/$defs/X"}}}, "refers to '#/\\$defs/X', which is not in it"),
        ({"properties": {"a": {"$ref": "other.json"}}}, "refers to 'other.json'"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "refers to itself"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        stored(schema)


@pytest.mark.parametrize("text", ["x", "[]", "{}", '{"version":2,"format":"json","schema":{}}'])
def test_metadata_that_is_no_schema_of_this_release_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="the metadata headwater"):
        schema_in({KEY: text})
