"""The dataset of a stream refuses what would read its files without the stream's own knowledge."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headwater.lake.dataset import StreamDataset


def test_fragments_and_pickles_are_refused(tmp_path: Path) -> None:
    dataset = StreamDataset({"path": str(tmp_path)})
    with pytest.raises(NotImplementedError, match="no fragments"):
        dataset.get_fragments()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(dataset)


def test_a_stream_without_files_is_empty(tmp_path: Path) -> None:
    dataset = StreamDataset({"path": str(tmp_path)})
    assert dataset.count_rows() == 0
    assert dataset.to_table().schema == dataset.schema
