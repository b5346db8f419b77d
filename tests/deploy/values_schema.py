"""Checks values against the part of JSON Schema that the chart's schema uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

KEYWORDS = {
    *("$schema", "$ref", "definitions", "type", "properties", "additionalProperties", "items"),
    *("enum", "pattern", "minLength", "minimum", "maximum"),
}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def problems(value: Any, schema: dict[str, Any], whole: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield what is wrong with a value."""
    assert set(schema) <= KEYWORDS, f"this check does not know {set(schema) - KEYWORDS}"
    if "$ref" in schema:
        schema = whole["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{path} is not of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} is not one of {schema['enum']}"
    if isinstance(value, str):
        if not re.search(schema.get("pattern", ""), value) or len(value) < schema.get("minLength", 0):
            yield f"{path} is not allowed: {value!r}"
    elif isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{path} is out of bounds"
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from problems(each, schema.get("items", {}), whole, f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from _wrong_members(value, schema, whole, path)


def _wrong_members(
    value: dict[str, Any], schema: dict[str, Any], whole: dict[str, Any], path: str
) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name, each in value.items():
        if name in known:
            yield from problems(each, known[name], whole, f"{path}.{name}")
        elif others is False:
            yield f"{path}.{name} is unknown"
        elif isinstance(others, dict):
            yield from problems(each, others, whole, f"{path}.{name}")


def _has_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and not (name == "integer" and isinstance(value, bool))
