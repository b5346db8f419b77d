"""The SQL of a pipeline, checked before Spark resolves a name of it: a SELECT over streams, and nothing else.

A client wrote it. Spark could read files (`parquet.`/etc/…``), call Java methods (`reflect`), run programs
(`TRANSFORM … USING`) or write tables. The text is parsed, and every node of the plan must be one of those
below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.errors import Error
from headwater.model.names import valid_stream_name

NODES = frozenset(
    [
        "Aggregate",
        "Distinct",
        "Except",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "LocalRelation",
        "NamedStreamingRelation",
        "Offset",
        "OneRowRelation",
        "PipeOperator",
        "Pivot",
        "Project",
        "Sort",
        "SubqueryAlias",
        "Union",
        "Unpivot",
        "UnresolvedEventTimeWatermark",
        "UnresolvedHaving",
        "UnresolvedHint",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedWith",
        "WithWindowDefinition",
    ]
)
"""The nodes of a parsed plan that a pipeline may have."""
GROUPS = frozenset(
    [
        "agg_funcs",
        "array_funcs",
        "bitwise_funcs",
        "collection_funcs",
        "conditional_funcs",
        "conversion_funcs",
        "csv_funcs",
        "datetime_funcs",
        "generator_funcs",
        "hash_funcs",
        "json_funcs",
        "lambda_funcs",
        "map_funcs",
        "math_funcs",
        "predicate_funcs",
        "sketch_funcs",
        "string_funcs",
        "struct_funcs",
        "url_funcs",
        "variant_funcs",
        "vector_funcs",
        "window_funcs",
    ]
)
"""The groups of Spark's functions that a pipeline may call. Group misc_funcs has `reflect`."""
OTHERS = frozenset(["!=", "<>", "case", "||", "assert_true", "raise_error", "typeof", "uuid", "current_user"])
"""Functions of other groups that a pipeline may call."""
_EXPRESSIONS = ("Identifier", "Parameter", "Reflect", "Udf", "UDF", "Invoke")
"""Parts of the names of expressions that a pipeline may not have."""
MOST_NODES = 5_000


class RefusedSqlError(Error):
    """SQL that a pipeline may not have; the text says why, with Spark's message where it has one."""


@dataclass(frozen=True)
class CheckedSql:
    """SQL that may be run."""

    text: str
    inputs: tuple[str, ...]
    """The streams that it reads, in the order of their names."""


def checked_sql(session: Any, sql: str) -> CheckedSql:
    """Return SQL that only selects from streams; raise RefusedSqlError for any other."""
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except Exception as error:
        raise RefusedSqlError(message_of(error)) from None
    walk = _Walk(session)
    walk.plan(plan)
    return CheckedSql(sql, tuple(sorted(set(walk.relations) - walk.named)))


def message_of(error: Exception) -> str:
    """Return what Spark says about SQL, with the position and the text around it, without its plan."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    said = lines[0].removesuffix(";") if lines else type(error).__name__
    shown = [line for line in lines[1:] if not line.startswith(("'", "+-", ":-", "   ", ":  ", "~", "\tat"))]
    return "\n".join([said, *shown[:8]])


class _Walk:
    """Goes through a parsed plan, and collects the tables that it names."""

    def __init__(self, session: Any) -> None:
        self._jvm = session._jvm
        self._catalog = session._jsparkSession.sessionState().catalog()
        self.relations: list[str] = []
        self.named: set[str] = set()
        """The names that the query itself defines with WITH."""
        self._left = MOST_NODES

    def plan(self, root: Any) -> None:
        """Raise for a node that is not allowed, here or in a subquery."""
        waiting = [root]
        while waiting:
            node = waiting.pop()
            self._count()
            kind = _kind(node)
            if kind not in NODES:
                raise RefusedSqlError(
                    f"a pipeline is one SELECT over streams: {_readable(kind)} is not allowed"
                )
            if kind == "UnresolvedRelation":
                self._relation(node)
            below = [*self._seq(node.children()), *self._seq(node.innerChildren())]
            if kind == "UnresolvedWith":
                self.named |= {each.alias() for each in self._seq(node.innerChildren())}
            waiting += below
            for each in self._seq(node.expressions()):
                self._expression(each)

    def _relation(self, node: Any) -> None:
        parts = list(self._seq(node.multipartIdentifier()))
        if len(parts) != 1 or not valid_stream_name(parts[0]):
            raise RefusedSqlError(
                f"{'.'.join(parts)!r} is no stream: a pipeline reads streams of its account"
            )
        if not node.options().isEmpty():
            raise RefusedSqlError(f"options of {parts[0]!r} are not allowed")
        self.relations.append(parts[0])

    def _expression(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            node = waiting.pop()
            self._count()
            kind = _kind(node)
            if any(part in kind for part in _EXPRESSIONS):
                raise RefusedSqlError(f"{_readable(kind)} is not allowed in a pipeline")
            if kind == "UnresolvedFunction":
                self._function(list(self._seq(node.nameParts())))
            elif kind == "UnresolvedGenerator":
                self._function([node.name().funcName()])
            waiting += self._seq(node.children())

    def _function(self, parts: list[str]) -> None:
        name = parts[0].lower()
        if len(parts) > 1:
            raise RefusedSqlError(
                f"function {'.'.join(parts)!r} is not allowed: use Spark's functions by their name"
            )
        if name in OTHERS:
            return
        identifier = self._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        try:
            group = self._catalog.lookupFunctionInfo(identifier).getGroup()
        except Exception:
            raise RefusedSqlError(f"there is no function {name!r}") from None
        if group not in GROUPS:
            raise RefusedSqlError(f"function {name!r} is not allowed in a pipeline")

    def _seq(self, seq: Any) -> Iterator[Any]:
        return iter(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(seq))

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise RefusedSqlError(f"the query has more than {MOST_NODES:,} parts")


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName()).removesuffix("$")


def _readable(kind: str) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind)
    return words.strip().removeprefix("unresolved ")
