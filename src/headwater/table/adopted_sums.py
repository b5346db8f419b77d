"""What a target must know about a file that it adopts, computed from the sums over the file's messages."""

from __future__ import annotations

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied
from headwater.table.file_sums import FileSums
from headwater.table.schema import subject_bytes


def adopted_of(
    name: str, size_bytes: int, sums: FileSums, base_seq: int = 0, copied: Copied | None = None
) -> Adopted:
    """Return the entry of the target's log for a file of this name and size."""
    subjects = {subject_bytes(text): counted for text, counted in sums.subjects.items()}
    added = 0
    if copied is not None:
        lengths = sum(len(subject) * count for subject, (count, _) in subjects.items())
        added = copied.added_bytes(sums.first_offset, sums.last_offset, lengths)
    return Adopted(
        name=name,
        rows=sums.rows,
        first_offset=sums.first_offset,
        last_offset=sums.last_offset,
        first_ts=copied.ts if copied else sums.first_ts,
        last_ts=copied.ts if copied else sums.last_ts,
        payload_bytes=sums.payload_bytes + added,
        with_headers=sums.rows if copied else sums.with_headers,
        size_bytes=size_bytes,
        first_subject=sums.first_subject,
        last_subject=sums.last_subject,
        subjects=subjects,
        gaps=sums.gaps,
        base_seq=base_seq,
        copied=copied,
    )
