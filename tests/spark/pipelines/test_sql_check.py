"""What Spark says about SQL, without its plan; tests/on_spark/test_pipelines.py checks SQL with Spark."""

from __future__ import annotations

from headwater.spark.pipelines.sql_check import GROUPS, NODES, OTHERS, message_of


def test_the_position_and_the_text_are_shown_and_the_plan_is_not() -> None:
    error = Exception(
        "[UNRESOLVED_COLUMN] `nope`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['nope]\n+- View (`A`)\n"
    )
    assert message_of(error) == "[UNRESOLVED_COLUMN] `nope`. SQLSTATE: 42703; line 1 pos 7"
    parse = Exception("\n[PARSE_SYNTAX_ERROR] near 'x'. (line 1, pos 3)\n\n== SQL ==\nSELECT x\n---^^^\n")
    assert message_of(parse).splitlines() == [
        "[PARSE_SYNTAX_ERROR] near 'x'. (line 1, pos 3)",
        "== SQL ==",
        "SELECT x",
        "---^^^",
    ]
    assert message_of(Exception()) == "Exception"


def test_nothing_that_reads_files_or_runs_code_is_among_what_is_allowed() -> None:
    assert not {"ScriptTransformation", "UnresolvedTableValuedFunction", "RelationTimeTravel"} & NODES
    assert not {"misc_funcs", "xml_funcs", "table_funcs", "avro_funcs", "protobuf_funcs"} & GROUPS
    assert not {"reflect", "java_method", "try_reflect"} & OTHERS
