"""Writes 1,000 orders as Parquet files: `python export.py FOLDER`."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for year in range(4):
    ids = range(year * 250, (year + 1) * 250)
    orders = pa.table({"id": list(ids), "year": [2022 + year] * 250, "amount": [n % 90 + 0.5 for n in ids]})
    pq.write_table(orders, folder / f"orders-{2022 + year}.parquet")
print("4 files with 1000 orders in", folder)
