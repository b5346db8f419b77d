"""A table that SQL created keeps its options in its schema, but no secrets."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from headwater.errors import SettingsError
from headwater.spark.spark_schema import SCHEMA, column_names
from headwater.spark.table_options import kept_in, options_of

CREATED = {"provider": "headwater", "owner": "x", "option.stream": "S", "stream": "S", "subject": "a.>"}


def test_options_are_kept_while_a_table_is_created() -> None:
    kept = kept_in(SCHEMA, CaseInsensitiveDict(CREATED))
    copied = StructType.fromJson(kept.jsonValue())
    assert column_names(copied) == column_names(SCHEMA)
    assert options_of({}, copied) == {"stream": "S", "subject": "a.>"}
    assert options_of({"subject": "b"}, copied) == {"stream": "S", "subject": "b"}


def test_other_reads_have_a_plain_schema() -> None:
    assert kept_in(SCHEMA, {"stream": "S", "password": "x"}) is SCHEMA
    assert options_of({"stream": "S"}, SCHEMA) == {"stream": "S"}


@pytest.mark.parametrize(
    "secret", [{"password": "x"}, {"token": "x"}, {"server": "nats://user:word@127.0.0.1"}], ids=str
)
def test_a_table_with_a_secret_is_refused(secret: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match="cannot keep a password or a token: use option creds"):
        kept_in(SCHEMA, CREATED | secret)
