"""The public names of `headwater.spark` are found, and others are not."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headwater.spark
from headwater.spark import decoding
from headwater.spark.spark_names import PLACES, find


def test_public_names_are_where_they_are_said_to_be() -> None:
    assert headwater.spark.decode is decoding.decode
    assert all(callable(find(name)) for name in PLACES)
    with pytest.raises(AttributeError, match="no attribute 'encode'"):
        find("encode")


def test_a_scan_without_spark_does_not_import_it() -> None:
    script = "import sys, headwater.lake.scanning; assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
