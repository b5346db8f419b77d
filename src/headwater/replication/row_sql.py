"""The SQL of a row pipeline: parsed by Spark, and refused if it is more than expressions over one message.

Clients declare it, so it must not read files or run code in the replicator, and a repeated run must give the
same result. Only Spark's own deterministic functions over the columns of a message are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.errors import Error

OUTPUTS = {
    "subject": ("string",),
    "data": ("string", "binary"),
    "headers": ("map<string,array<string>>", "map<string,string>"),
}
"""The columns that a select may have, and their types."""
_REFUSED = frozenset(
    (
        # They run code or read files.
        *("reflect", "java_method", "try_reflect", "from_avro", "to_avro", "schema_of_avro"),
        *("from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
        # Their result differs from run to run.
        *("now", "curdate", "localtimestamp", "rand", "randn", "random", "randstr", "uniform", "uuid"),
        *("shuffle", "aes_encrypt", "version", "user", "session_user", "monotonically_increasing_id"),
        "spark_partition_id",
    )
)
_REFUSED_STARTS = ("current_", "xpath", "ai_")
_PARSED = frozenset(
    (
        *("UnresolvedAttribute", "UnresolvedFunction", "UnresolvedAlias", "MultiAlias"),
        *("UnresolvedExtractValue", "UnresolvedNamedLambdaVariable"),
    )
)
"""The classes of parsed expressions that are not resolved yet."""
_CATALYST = "org.apache.spark.sql.catalyst."
_REFUSED_CLASSES = re.compile(r"Current\w*|Now|LocalTimestamp|ScalaUDF|Python\w*|CallMethodViaReflection")
_PLANS = re.compile(r"\w*(Subquery|Window|ListQuery|Exists)\w*")
_GENERATORS = {"Explode": "explode", "PosExplode": "posexplode", "Inline": "inline"}
_MOMENTS = re.compile(r"'\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_LINE = re.compile(r"\bline (\d+)(,?) pos (\d+)")
_MOST_NODES = 5_000
"""How many nodes the SQL of a pipeline may have."""


class RowSqlError(Error):
    """The SQL of a pipeline is refused; the text says why, with Spark's position if there is one."""


class RowSql:
    """The parsed and checked SQL of one pipeline."""

    def __init__(self, spark: SparkSession, where: str, select: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._parser: Any = spark._jsparkSession.sessionState().sqlParser()
        self._plan_class: Any = jvm.java.lang.Class.forName(f"{_CATALYST}expressions.PlanExpression")
        self._functions = frozenset(_functions(jvm))
        """The names of Spark's own functions."""
        self._nodes = 0
        """How many parts the SQL has, as far as it was checked."""
        self.where, self.select = where.strip(), select.strip()
        for name, text in (("where", self.where), ("select", self.select)):
            if text:
                self._check(name, text)

    @property
    def where_text(self) -> str:
        """Return the condition as a struct, so that null is a failure and not a result."""
        return f"struct((\n{self.where}\n) AS ok)"

    def items(self) -> list[Any]:
        """Return the parsed columns of the select."""
        return list(_items(self._parser.parsePlan(f"SELECT\n{self.select}").projectList()))

    def _check(self, name: str, text: str) -> None:
        if _MOMENTS.search(text) and re.search(r"date|timestamp", text, re.IGNORECASE):
            raise RowSqlError(f"{name}: 'now' and 'today' differ from run to run: use the column time")
        try:
            is_where = name == "where"
            parsed = self._parser.parseExpression(f"\n{text}") if is_where else None
            plan = None if is_where else self._parser.parsePlan(f"SELECT\n{text}")
        except Exception as error:
            raise RowSqlError(f"{name}: {spark_reason(error)}") from None
        if plan is None:
            self._walk(name, parsed)
            return
        child = plan.child() if _simple(plan) == "Project" else None
        if child is None or _simple(child) != "OneRowRelation":
            raise RowSqlError("select: only a list of columns is allowed, without FROM or other clauses")
        for each in _items(plan.projectList()):
            self._walk(name, each)

    def _walk(self, name: str, expression: Any) -> None:
        """Refuse a parsed expression with parts that are not allowed; nothing was evaluated yet."""
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise RowSqlError(f"{name}: the SQL has more than {_MOST_NODES:,} parts")
        package, _, simple = str(expression.getClass().getName()).rpartition(".")
        simple = simple.rstrip("$")
        if simple in ("UnresolvedStar", "UnresolvedStarExceptOrReplace", "UnresolvedStarExcept"):
            raise RowSqlError(f"{name}: * is not allowed: name the columns")
        if self._plan_class.isInstance(expression) or _PLANS.fullmatch(simple):
            raise RowSqlError(f"{name}: subqueries and window functions are not allowed")
        is_known = package.startswith(f"{_CATALYST}expressions") or simple in _PARSED
        if not is_known or _REFUSED_CLASSES.fullmatch(simple):
            raise RowSqlError(f"{name}: {_one_line(expression.sql())} is not allowed in a pipeline")
        if simple == "UnresolvedFunction":
            self._check_function(name, expression)
        for child in _items(expression.children()):
            self._walk(name, child)

    def _check_function(self, name: str, expression: Any) -> None:
        parts = [str(part).lower() for part in _items(expression.nameParts())]
        called = ".".join(parts)
        is_bare_time = called == "unix_timestamp" and not expression.children().size()
        if called in _REFUSED or called.startswith(_REFUSED_STARTS) or is_bare_time:
            raise RowSqlError(f"{name}: the function {called} is not allowed in a pipeline")
        if called not in self._functions:
            raise RowSqlError(f"{name}: {called} is not a function of Spark")


class Generated:
    """The generator in a select, which makes several messages of one."""

    def __init__(self, node: Any) -> None:
        generator = node.generator()
        self.kind = _GENERATORS.get(_simple(generator), "")
        if not self.kind:
            raise RowSqlError(
                f"select: use {', '.join(_GENERATORS.values())} to make several messages of one"
            )
        self.child = generator.child()
        self.is_outer = bool(node.outer())
        self.is_map = str(self.child.dataType().typeName()) == "map"
        self.ids = [int(each.exprId().id()) for each in _items(node.generatorOutput())]
        """The ids of its output columns, in order."""


class Selected:
    """The analyzed select: its columns by name, resolved, and the generator among them."""

    def __init__(self, frame: DataFrame, chosen: DataFrame, *, mirrored: bool) -> None:
        plan: Any = chosen._jdf.queryExecution().analyzed()
        self.generated: Generated | None = None
        """None if a message becomes one at the most."""
        if _simple(plan) == "Project" and _simple(plan.child()) == "Generate":
            self.generated = Generated(plan.child())
            if mirrored:
                raise RowSqlError(
                    "select: a mirror keeps the sequences of its origin, so a message cannot become several: "
                    "use a source"
                )
        below = (
            plan.child().child() if self.generated else plan.child() if _simple(plan) == "Project" else plan
        )
        if not below.sameResult(frame._jdf.queryExecution().analyzed()):
            raise RowSqlError(
                "select: only expressions over one message are allowed, no aggregates or windows"
            )
        self.columns: dict[str, Any] = {}
        """The resolved expression of each column, by its name."""
        for each in _items(plan.projectList()):
            name = str(each.name()).lower()
            kind = str(each.dataType().simpleString())
            if name not in OUTPUTS:
                raise RowSqlError(
                    f"select: {name!r} is not a column of a message: use AS {' or '.join(OUTPUTS)}"
                )
            if name in self.columns:
                raise RowSqlError(f"select: there are several columns {name!r}")
            if kind not in OUTPUTS[name]:
                hint = (
                    ": use to_json(…)"
                    if name == "data" and kind.startswith(("struct", "map", "array"))
                    else ""
                )
                raise RowSqlError(f"select: {name} must be {' or '.join(OUTPUTS[name])}, not {kind}{hint}")
            check_resolved("select", each)
            self.columns[name] = each
        if self.generated:
            check_resolved("select", self.generated.child)


def check_resolved(name: str, expression: Any) -> None:
    """Refuse a resolved expression whose result may differ from run to run."""
    if not expression.deterministic():
        raise RowSqlError(f"{name}: {_one_line(expression.sql())} gives another result in each run")
    for each in _tree(expression):
        if _REFUSED_CLASSES.fullmatch(_simple(each)):
            raise RowSqlError(f"{name}: {_one_line(each.sql())} is not allowed in a pipeline")


def spark_reason(error: Exception) -> str:
    """Return Spark's message in one line, with the position in the SQL as it was declared."""
    java = getattr(error, "java_exception", None)
    said = str(java.getMessage()) if java is not None else str(error)
    # SQL follows a line that we added.
    said = _LINE.sub(lambda found: f"line {max(int(found[1]) - 1, 1)}{found[2]} pos {found[3]}", said)
    for mark in ("\n== SQL", ";\n'", "\n== DataFrame ==", "JVM stacktrace"):
        said = said.partition(mark)[0]
    return _one_line(said)


def _functions(jvm: Any) -> list[str]:
    """Return the names of Spark's own functions."""
    builtin = jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.functionSet()
    return [name.rpartition(".")[2].strip("`") for name in str(builtin.mkString("\n")).lower().split("\n")]


def _tree(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _items(expression.children()):
        yield from _tree(child)


def _items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _simple(node: Any) -> str:
    return str(node.getClass().getSimpleName()).rstrip("$")


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
