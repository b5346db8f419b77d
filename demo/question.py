"""An SQL query over a stream: `python question.py FOLDER SERVER`."""

import os
import sys

from pyspark.sql import SparkSession

folder, server = sys.argv[1:]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the Python that has headwater
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
report = spark.read.format("headwater").option("server", server).load(folder)
report.createOrReplaceTempView("report")
spark.sql(
    """
    SELECT coalesce(split(headers['Nats-Stream-Source'][0], ' ')[0], 'published to ARCHIVE') AS origin,
           subject, count(*) AS messages, min(seq) AS first_seq, max(seq) AS last_seq, max(time) AS newest
    FROM report GROUP BY origin, subject ORDER BY origin, subject
    """
).show(truncate=False)
spark.stop()
