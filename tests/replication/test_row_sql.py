"""What Spark says of SQL, in one line; `tests/on_spark/test_row_jobs.py` has the SQL that is refused."""

from __future__ import annotations

from headwater.replication.row_sql import spark_reason


def test_a_reason_is_one_line_with_the_position_in_the_declared_sql() -> None:
    error = Exception(
        "[PARSE_SYNTAX_ERROR] Syntax error at or near '>'. (line 2, pos 15)\n\n== SQL ==\n\na >> > 1"
    )
    assert spark_reason(error) == "[PARSE_SYNTAX_ERROR] Syntax error at or near '>'. (line 1, pos 15)"
    plan = Exception("[X] no column; line 3 pos 4;\n'Project ['a]\n+- Range")
    assert spark_reason(plan) == "[X] no column; line 2 pos 4"
