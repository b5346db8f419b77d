"""Which records of a journal are still needed: those with a piece of a file that exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from headwater.journal.record import ChangePiece, FileOp


class Contents:
    """The files that a journal holds, and at which positions their pieces are."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, int]] = {}
        """Path to the positions of its pieces, with the bytes of each, ascending."""
        self._live: Counter[int] = Counter()
        """Position to the number of files that have a piece there."""
        self._partial: list[tuple[int, ChangePiece]] = []
        """The pieces of a change whose last piece did not arrive yet."""
        self.live_bytes = 0

    @property
    def live_records(self) -> int:
        """Return how many records are needed."""
        return len(self._live)

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def names(self) -> list[str]:
        """Return the paths of all files."""
        return list(self._files)

    def apply(self, position: int, pieces: Iterable[ChangePiece]) -> None:
        """Record the pieces that were appended at a position, which is the highest so far."""
        for piece in pieces:
            self._partial.append((position, piece))
            if not piece.more:
                # Only now: until its last piece is there, a change may never happen.
                for at, part in self._partial:
                    self._apply(at, part)
                self._partial.clear()

    def abandon(self) -> None:
        """Forget a change that will never be complete: another engine took over before its last piece."""
        self._partial.clear()

    def floor(self, above: int) -> int:
        """Return the lowest position that is needed; `above` if none is."""
        partial = self._partial[0][0] if self._partial else above
        return min(min(self._live, default=above), partial)

    def oldest(self, most: int) -> list[str]:
        """Return files with a piece at the lowest position."""
        floor = min(self._live, default=0)
        return [path for path, pieces in self._files.items() if floor in pieces][:most]

    def _apply(self, position: int, piece: ChangePiece) -> None:
        if piece.op == FileOp.REMOVE:
            self._drop(self._at_or_below(piece.path))
        elif piece.op == FileOp.RENAME:
            self._rename(piece.path, piece.data.decode())
        else:
            if piece.op == FileOp.WHOLE:
                self._drop([piece.path])
            self._add(piece.path, position, len(piece.data))

    def _add(self, path: str, position: int, nbytes: int) -> None:
        pieces = self._files.setdefault(path, {})
        if position not in pieces:
            self._live[position] += 1
        pieces[position] = pieces.get(position, 0) + nbytes
        self.live_bytes += nbytes

    def _drop(self, paths: list[str]) -> None:
        for path in paths:
            for position, nbytes in self._files.pop(path, {}).items():
                self.live_bytes -= nbytes
                self._live[position] -= 1
                if not self._live[position]:
                    del self._live[position]

    def _rename(self, source: str, target: str) -> None:
        moved = self._at_or_below(source)
        self._drop([target + path[len(source) :] for path in moved if target + path[len(source) :] in self])
        for path in moved:
            self._files[target + path[len(source) :]] = self._files.pop(path)

    def _at_or_below(self, path: str) -> list[str]:
        if path in self._files:
            return [path]
        return [each for each in self._files if is_at_or_below(each, path)]


def is_at_or_below(path: str, folder: str) -> bool:
    """Return whether a path is this one or one below it."""
    return path == folder or path.startswith(f"{folder}/")
