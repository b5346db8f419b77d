"""A row pipeline as a Spark plan: messages in, results out, with failed messages marked and never raised.

The columns of the result besides those of the select: `__work` (the place of the range in the job), `__end`,
`__seq`, `__ts`, `__origin` and `__headers` as they were read, `__fault`, and `payload` where it is needed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import ArrayType, StructType

from headwater.replication.row_sql import RowSql, RowSqlError, Selected, check_resolved, spark_reason
from headwater.replication.worker.row_faults import MOST_OUTPUTS, Fault

READ = (
    "__end BINARY, __seq BIGINT, __ts BIGINT, __origin STRING, __headers BINARY, subject STRING, "
    "headers MAP<STRING, ARRAY<STRING>>, payload BINARY"
)
"""What the reading task yields: `row_reader.COLUMNS` in Spark's types."""
SESSION = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    # An alias of the same select is not a column yet: results are made in one step.
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
    # A common part of two expressions would be evaluated before them, where its errors are not caught.
    "spark.sql.subexpressionElimination.enabled": "false",
    # A batch of large messages must fit into memory.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}
"""What the results of SQL depend on, so that they are the same on every cluster."""
_HIDDEN = ("__work", "__end", "__seq", "__ts", "__origin", "__headers")
_CORRUPT = "__corrupt"
_SUSPECT = r"[\s*>\x{FFFD}]|^$|^\.|\.\.|\.$"
"""What an invalid subject contains; the task checks those in detail."""
_LINE_BYTES = 1024
"""More than the source header adds to a message."""


class RowPlan:
    """The checked SQL of one pipeline; RowSqlError if Spark refuses it."""

    def __init__(self, spark: SparkSession, sql: tuple[str, str, str, bool]) -> None:
        where, select, self._fields, self._mirrored = sql
        self._jvm: Any = spark._jvm
        self._spark = spark
        self._sql = RowSql(spark, where, select)
        self._reads = {"data", "headers"}
        """Which columns the SQL looks at, of those that cost something."""
        self.columns: tuple[str, ...] = ()
        """The columns of the select."""
        self.makes_several = False
        """Whether one message can become several."""
        self._check()

    @property
    def reads_headers(self) -> bool:
        """Return whether the SQL looks at headers, which must be parsed then."""
        return "headers" in self._reads

    def _check(self) -> None:
        """Analyze the SQL over no messages."""
        visible = self._visible(self._spark.createDataFrame([], READ))
        read: set[str] = set()
        if self._sql.where:
            chosen = self._analyzed("where", lambda: visible.select(F.expr(f"(\n{self._sql.where}\n)")))
            condition: Any = chosen._jdf.queryExecution().analyzed()
            kind = chosen.schema.fields[0].dataType.simpleString()
            if kind != "boolean":
                raise RowSqlError(f"where: it must be a condition, not {kind}")
            same = condition.child().sameResult(visible._jdf.queryExecution().analyzed())
            if not same or condition.getClass().getSimpleName() != "Project":
                raise RowSqlError("where: only a condition over one message is allowed, no aggregates")
            check_resolved("where", condition.projectList().apply(0))
            read |= _names(condition.projectList().apply(0))
        if self._sql.select:
            selected = self._selected(visible)
            self.columns = tuple(selected.columns)
            self.makes_several = selected.generated is not None
            for each in selected.columns.values():
                read |= _names(each)
            if selected.generated is not None:
                read |= _names(selected.generated.child)
        if hidden := sorted(name for name in read if name.startswith("__")):
            raise RowSqlError(f"a message has no column {hidden[0]}")
        self._reads &= read

    def _selected(self, visible: DataFrame) -> Selected:
        columns = [self._column(each) for each in self._sql.items()]
        chosen = self._analyzed("select", lambda: visible.select(*columns))
        return Selected(visible, chosen, mirrored=self._mirrored)

    def _analyzed(self, name: str, make: Any) -> DataFrame:
        try:
            frame: DataFrame = make()
            return frame
        except Exception as error:  # py4j's exceptions do not derive from Spark's
            raise RowSqlError(f"{name}: {spark_reason(error)}") from None

    def _visible(self, messages: DataFrame) -> DataFrame:
        """Return messages with the columns that SQL sees, and whether their payload is corrupt.

        The place of a range is not deterministic for Spark. So it does not evaluate a condition before the
        payload is parsed, and parses the payload once.
        """
        text = F.col("payload").cast("string")
        data, is_corrupt, value = F.lit(None).cast("string"), F.lit(False), F.col("__data")
        if "data" in self._reads:
            data = F.when(F.is_valid_utf8(text), text)
            is_corrupt = F.col("__data").isNull()
            if self._fields:
                options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
                data = F.from_json(data, f"{self._fields}, {_CORRUPT} STRING", options)
                is_corrupt = is_corrupt | F.col("__data")[_CORRUPT].isNotNull()
                value = F.col("__data").dropFields(_CORRUPT)
        held = messages.select(
            F.spark_partition_id().alias("__work"), *messages.columns, data.alias("__data")
        )
        return held.select(
            *_HIDDEN,
            F.col("__seq").alias("seq"),
            "subject",
            F.expr("timestamp_micros(__ts div 1000)").alias("time"),
            F.expr("CAST(__ts % 1000 AS SMALLINT)").alias("nanos"),
            "headers",
            "payload",
            value.alias("data"),
            (F.col("__end").isNull() & is_corrupt).alias("__bad"),
        )

    def result(self, messages: DataFrame, most_bytes: int = 0) -> DataFrame:
        """Return what becomes of messages; one that fails is a row with a fault and its payload."""
        frame = self._visible(messages)
        is_live = F.col("__end").isNull() & ~F.col("__bad")
        passed = is_live
        fault = F.when(F.col("__bad"), F.lit(int(Fault.PAYLOAD)))
        if self._sql.where:
            frame = frame.withColumn("__where", F.when(is_live, self._tried(F.expr(self._sql.where_text))))
            frame = frame.filter(~is_live | F.col("__where").isNull() | F.col("__where.ok"))
            passed = is_live & F.col("__where").isNotNull()
            fault = fault.when(is_live & F.col("__where").isNull(), F.lit(int(Fault.WHERE)))
        if not self._sql.select:
            return frame.select(*_HIDDEN, fault.alias("__fault"), "payload", "subject")
        selected = self._selected(frame)
        made = F.struct(*self._made(selected))
        frame = frame.withColumn("__made", F.when(passed, self._tried(made)))
        fault = fault.when(passed & F.col("__made").isNull(), F.lit(int(Fault.SELECT)))
        outputs = {name: F.col(f"__made.{name}") for name in selected.columns}
        if selected.generated is not None:
            items = F.col("__made.__items")
            fault = fault.when(F.size(items) > MOST_OUTPUTS, F.lit(int(Fault.MANY)))
            frame, outputs = self._exploded(frame, selected, fault)
        return self._finished(frame, fault, outputs, most_bytes)

    def _made(self, selected: Selected) -> list[Column]:
        """Return the columns of the select, and what its generator makes messages of."""
        generated = selected.generated
        plain = [
            name
            for name, each in selected.columns.items()
            if generated is None or _id(each) not in generated.ids
        ]
        made = [self._column(selected.columns[name]).alias(name) for name in plain]
        if generated is not None:
            items = self._column(generated.child)
            made.append((F.map_entries(items) if generated.is_map else items).alias("__items"))
        return made

    def _exploded(
        self, frame: DataFrame, selected: Selected, fault: Column
    ) -> tuple[DataFrame, dict[str, Column]]:
        """Return a row for each message that the generator makes, at least one for each fault."""
        generated = selected.generated
        assert generated is not None
        held = frame.schema["__made"].dataType
        assert isinstance(held, StructType)
        listed = held["__items"].dataType
        assert isinstance(listed, ArrayType)
        nothing = F.array(F.lit(None).cast(listed.elementType))
        items = F.col("__made.__items")
        chosen = F.when(F.col("__made").isNull() | fault.isNotNull(), nothing)
        if generated.is_outer:
            chosen = chosen.when(items.isNull() | (F.size(items) == 0), nothing)
        frame = frame.select("*", F.posexplode(chosen.otherwise(items)).alias("__pos", "__item"))
        values = [F.col("__item")]
        if generated.is_map or generated.kind == "inline":
            assert isinstance(listed.elementType, StructType)
            values = [F.col("__item")[field.name] for field in listed.elementType.fields]
        if generated.kind == "posexplode":
            values.insert(0, F.col("__pos"))
        outputs = {name: F.col(f"__made.{name}") for name in selected.columns}
        for name, each in selected.columns.items():
            if _id(each) in generated.ids:
                outputs[name] = values[generated.ids.index(_id(each))]
        return frame, outputs

    def _finished(
        self, frame: DataFrame, fault: Column, outputs: dict[str, Column], most_bytes: int
    ) -> DataFrame:
        """Return the result with the payload of messages that fail, or that the task may refuse."""
        needs = (
            F.lit("data" not in outputs or "headers" in outputs)
            | F.col("__end").isNotNull()
            | F.col("__fault").isNotNull()
        )
        if "subject" in outputs:
            needs = needs | F.col("__subject").isNull() | F.col("__subject").rlike(_SUSPECT)
        if "data" in outputs:
            needs = needs | F.col("data").isNull()
            if most_bytes:
                size = F.octet_length("data") + F.coalesce(F.octet_length("__headers"), F.lit(0))
                needs = needs | (size + _LINE_BYTES > most_bytes)
        if self.makes_several:
            needs = needs | (F.col("__pos") == 0)
        subject = outputs.get("subject", F.col("subject"))
        others = {name: outputs[name] for name in ("data", "headers") if name in outputs}
        position = ["__pos"] if self.makes_several else []
        frame = frame.select(
            *_HIDDEN,
            *position,
            fault.alias("__fault"),
            "payload",
            subject.alias("__subject"),
            *(value.alias(name) for name, value in others.items()),
        )
        return frame.select(
            *_HIDDEN,
            "__fault",
            F.when(needs, F.col("payload")).alias("payload"),
            F.col("__subject").alias("subject"),
            *others,
        )

    def reason(self, message: tuple[Any, ...]) -> str:
        """Return why the SQL fails for one message, in the columns of `READ`; empty if it does not."""
        visible = self._visible(self._held(message))
        try:
            if self._sql.where and not visible.select(F.expr(f"(\n{self._sql.where}\n)")).collect()[0][0]:
                return ""
            if self._sql.select:
                # A generator would need a job, but only its argument can fail.
                visible.select(*self._made(self._selected(visible))).collect()
        except Exception as error:  # py4j's exceptions do not derive from Spark's
            return spark_reason(error)
        return ""

    def _held(self, message: tuple[Any, ...]) -> DataFrame:
        """Return one message as a frame over constants.

        Spark evaluates projections of constants while it optimizes the plan. It starts no job, which it would
        try four times and log each time.
        """
        fields = self._spark.createDataFrame([], READ).schema.fields
        columns = [
            _constant(value).cast(field.dataType).alias(field.name)
            for value, field in zip(message, fields, strict=True)
        ]
        return self._spark.sql("VALUES (0)").select(*columns)

    def _tried(self, column: Column) -> Column:
        """Return a column that is null where evaluating it fails."""
        utils = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        expression = utils.expression(column._jc)
        return self._column(self._jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression))

    def _column(self, expression: Any) -> Column:
        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _constant(value: Any) -> Column:
    """Return a value as a column; a map has lists of text."""
    if isinstance(value, dict):
        return F.create_map(*(F.lit(each) for pair in value.items() for each in pair))
    return F.lit(value)


def _names(expression: Any) -> set[str]:
    """Return the names of the columns that an expression looks at."""
    found = expression.references().toSeq()
    return {str(found.apply(index).name()) for index in range(found.size())}


def _id(expression: Any) -> int:
    return int(expression.exprId().id())
