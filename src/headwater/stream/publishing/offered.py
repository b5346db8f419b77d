"""A run of messages just admitted, still in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from headwater.model.columns import Buffer, Columns, Int64s, Lengths
from headwater.model.message import Message
from headwater.model.run import Run, numbers_at, values_at


class OfferedRun:
    """Messages with their sequences and times, as lists; satisfies `Run`."""

    def __init__(
        self,
        seqs: Sequence[int],
        timestamps: Sequence[int],
        subjects: Sequence[bytes],
        headers: Sequence[bytes],
        datas: Sequence[bytes],
    ) -> None:
        self.seq_list = seqs
        self.timestamps = timestamps
        self.subjects = list(subjects)
        self.headers = headers
        self.datas = datas

    @classmethod
    def of(cls, columns: Columns) -> OfferedRun:
        """Return the messages of these columns."""
        return cls(
            columns.seqs.tolist(),
            columns.ts.tolist(),
            _split(columns.subjects, columns.subject_lengths),
            _split(columns.headers, columns.header_lengths),
            _split(columns.datas, columns.data_lengths),
        )

    @classmethod
    def chosen(cls, run: Run, rows: Sequence[int]) -> OfferedRun:
        """Return these rows of any run."""
        return cls(
            numbers_at(run.seqs, rows), numbers_at(run.ts, rows), run.subjects_at(rows), *run.payloads(rows)
        )

    @classmethod
    def joined(cls, runs: Sequence[OfferedRun]) -> OfferedRun:
        """Return the messages of several runs, one after the other, as one."""
        return cls(
            list(chain.from_iterable(run.seq_list for run in runs)),
            list(chain.from_iterable(run.timestamps for run in runs)),
            list(chain.from_iterable(run.subjects for run in runs)),
            list(chain.from_iterable(run.headers for run in runs)),
            list(chain.from_iterable(run.datas for run in runs)),
        )

    def columns(self) -> Columns:
        """Return the messages as columns."""
        return Columns(
            self.seqs,
            self.ts,
            *_joined(self.subjects),
            *_joined(self.headers),
            *_joined(self.datas),
        )

    def __len__(self) -> int:
        return len(self.seq_list)

    @cached_property
    def payload_bytes(self) -> int:
        """Return how many bytes the messages carry in all."""
        return sum(map(len, self.subjects)) + sum(map(len, self.headers)) + sum(map(len, self.datas))

    @property
    def nbytes(self) -> int:
        """Return about how much memory the run holds."""
        # Three objects and four slots for each message; lists, arrays and the entry of the head for the run.
        return self.payload_bytes + 160 * len(self.seq_list) + 1100

    @cached_property
    def seqs(self) -> Int64s:
        """Return the sequences, ascending."""
        return np.fromiter(self.seq_list, np.int64, len(self.seq_list))

    @cached_property
    def ts(self) -> Int64s:
        """Return the timestamps in nanoseconds."""
        return np.fromiter(self.timestamps, np.int64, len(self.timestamps))

    @cached_property
    def sizes(self) -> Int64s:
        """Return len(subject) + len(headers) + len(data) of each message."""
        count = len(self.seq_list)
        sizes = np.fromiter(map(len, self.subjects), np.int64, count)
        sizes += np.fromiter(map(len, self.headers), np.int64, count)
        sizes += np.fromiter(map(len, self.datas), np.int64, count)
        return sizes

    @cached_property
    def with_headers(self) -> npt.NDArray[np.bool_]:
        """Return which messages carry headers."""
        return np.fromiter(map(bool, self.headers), np.bool_, len(self.headers))

    def subject_mask(self, takes: Callable[[bytes], bool]) -> npt.NDArray[np.bool_]:
        """Return for each message whether its subject is taken."""
        return np.fromiter(map(takes, self.subjects), np.bool_, len(self))

    def payloads(self, rows: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
        """Return headers and data of the messages at these rows."""
        return values_at(self.headers, rows), values_at(self.datas, rows)

    def subjects_at(self, rows: Sequence[int]) -> list[bytes]:
        """Return the subjects of the messages at these rows."""
        return values_at(self.subjects, rows)

    def message(self, index: int) -> Message:
        """Return the message at this index of the run."""
        return Message(
            self.seq_list[index],
            self.timestamps[index],
            self.subjects[index],
            self.headers[index],
            self.datas[index],
        )


def _joined(values: Sequence[bytes]) -> tuple[Lengths, bytes]:
    """Return the lengths of the values, and all of them as one."""
    return np.fromiter(map(len, values), np.uint32, len(values)), b"".join(values)


def _split(joined: Buffer, lengths: Lengths) -> list[bytes]:
    """Return the pieces that the lengths cut the bytes into."""
    whole = bytes(joined)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
