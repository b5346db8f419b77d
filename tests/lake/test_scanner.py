"""A scan filters, projects and stops early, in the caller's thread."""

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from headwater.lake.scanner import ColumnChoice, StreamScanner

SCHEMA = pa.schema([("seq", pa.int64()), ("data", pa.binary())])


class Batches:
    """Three messages a batch; remembers how many batches were read, and in which threads."""

    def __init__(self, count: int = 10) -> None:
        self.count = count
        self.read = 0
        self.threads: set[int] = set()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in range(self.count):
            self.read += 1
            self.threads.add(threading.get_ident())
            seqs = list(range(batch * 3, batch * 3 + 3))
            yield pa.RecordBatch.from_arrays([pa.array(seqs), pa.array([b"x"] * 3)], schema=SCHEMA)


def scanner(
    batches: Batches, columns: ColumnChoice = None, filter: pc.Expression | None = None
) -> StreamScanner:
    return StreamScanner(batches, SCHEMA, columns, filter)


def test_a_scan_filters_and_projects() -> None:
    table = scanner(Batches(), ["seq"], pc.field("seq") >= 28).to_table()
    assert table.to_pydict() == {"seq": [28, 29]}
    renamed = scanner(Batches(), {"twice": pc.field("seq") * 2}, pc.field("seq") < 2).to_table()
    assert renamed.to_pydict() == {"twice": [0, 2]}
    assert scanner(Batches(), None, pc.field("seq") < 0).to_reader().read_all().num_rows == 0
    assert scanner(Batches(), None, pc.field("seq") < 5).count_rows() == 5


def test_the_first_messages_are_read_and_no_more() -> None:
    batches = Batches()
    assert scanner(batches).head(4).column("seq").to_pylist() == [0, 1, 2, 3]
    assert batches.read == 2
    assert scanner(batches).head(0).num_rows == 0


def test_a_reader_that_is_dropped_early_reads_no_more_and_only_in_this_thread() -> None:
    batches = Batches()
    reader = scanner(batches).to_reader()
    assert reader.read_next_batch().num_rows == 3
    reader.close()
    assert batches.read == 1
    assert batches.threads == {threading.get_ident()}


def test_a_process_that_stops_duckdb_early_ends() -> None:
    script = """
        import time
        import duckdb
        import pyarrow as pa
        import pyarrow.dataset as ds
        from headwater.lake.scanner import StreamScanner

        SCHEMA = pa.schema([("seq", pa.int64())])

        def batches():
            for seq in range(50):
                time.sleep(0.002)
                yield pa.RecordBatch.from_arrays([pa.array([seq])], schema=SCHEMA)

        class Slow(ds.Dataset):
            def __init__(self): pass
            schema = property(lambda self: SCHEMA)
            def scanner(self, columns=None, filter=None, **options):
                return StreamScanner(batches(), SCHEMA, columns, filter)

        for _ in range(20):
            assert len(duckdb.from_arrow(Slow()).limit(2).fetchall()) == 2
        """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], timeout=300, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
