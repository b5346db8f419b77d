"""The options of a table that SQL created, kept in its schema.

Spark 4.3 passes the options of `CREATE TABLE … USING headwater OPTIONS (…)` to the data source when the table
is created, and not when it is read. The schema is kept, so the options are metadata of its first column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from headwater.errors import SettingsError
from headwater.spark.reading import OPTIONS

KEY = "headwater.options"
SECRETS = ("password", "token")
_ONLY_OF_TABLES = "provider"
"""An option that Spark adds while it creates a table."""


def kept_in(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema with the options of a table, if Spark creates one; otherwise the schema."""
    if _ONLY_OF_TABLES not in options:
        return schema
    kept = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    if any(name in kept for name in SECRETS) or "@" in kept.get("server", ""):
        raise SettingsError(
            "a table cannot keep a password or a token: use option creds or nkey, or a temporary view"
        )
    first = schema.fields[0]
    marked = StructField(first.name, first.dataType, first.nullable, {KEY: json.dumps(kept)})
    return StructType([marked, *schema.fields[1:]])


def options_of(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """Return the options of a read, with those that the table keeps."""
    kept = schema.fields[0].metadata.get(KEY) if schema.fields else None
    # Spark's keys are in lower case; one spelling for each option.
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    known = {name.lower() for name in OPTIONS}
    unknown = {name: value for name, value in options.items() if name.lower() not in known}
    return {**(json.loads(kept) if kept else {}), **given, **unknown}
