"""Rows of a run are selected in the same way by a range or by a list."""

from __future__ import annotations

import numpy as np
import pytest

from headwater.model.run import numbers_at, values_at


@pytest.mark.parametrize("rows", [range(2, 5), [2, 3, 4], range(0), [0, 5], []])
def test_a_range_of_rows_and_a_choice_of_rows_give_what_stands_there(rows: range | list[int]) -> None:
    numbers, values = np.arange(6) * 10, [b"%d" % row for row in range(6)]
    assert numbers_at(numbers, rows) == [row * 10 for row in rows]
    assert values_at(values, rows) == [b"%d" % row for row in rows]
