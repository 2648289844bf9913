"""A folder of text files, read as one text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ._source import CHUNK_BYTES, Chunk, Excerpt, MemoryContent, Source, open_source
from ._store_format import META
from .parts import list_files


class SourceList(Source):
    """The text of several files, one after another. Only one file is open at a time."""

    def __init__(self, path: str, files: list[Path]) -> None:
        super().__init__(path, MemoryContent(b""))
        self._files = files
        self._stamps = self._look()
        self._current: Source | None = None

    @property
    def has_changed(self) -> bool:
        """Whether a file was modified after the folder was listed."""
        return self._look() != self._stamps

    def _look(self) -> list[tuple[int, int]]:
        return [(status.st_size, status.st_mtime_ns) for status in map(os.stat, self._files)]

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """Yield the chunks of all files; their bytes are numbered through."""
        for _, chunk in self._numbered(chunk_bytes):
            yield chunk

    def _numbered(self, chunk_bytes: int) -> Iterator[tuple[int, Chunk]]:
        """Yield chunks, each with the number of the first byte of its file."""
        start = 0
        for k, file in enumerate(self._files):
            with open_source(file) as part:
                self._current, end = part, start
                for chunk in part.chunks(chunk_bytes):
                    done = (k + chunk.done) / len(self._files)
                    yield start, chunk._replace(shift=start + chunk.shift, done=done)
                    end = start + chunk.shift + chunk.last
            start = end

    def release(self, chunks: list[Chunk]) -> None:
        """Reuse the buffers of chunks for later chunks of the file that is read."""
        if self._current is not None:
            self._current.release(chunks)

    def excerpt(self, at: int) -> Excerpt:
        """Return a part of the file that includes the line of byte `at`."""
        chunks = self._numbered(CHUNK_BYTES)
        start = next(start for start, chunk in chunks if at < chunk.shift + chunk.last)
        assert self._current is not None
        return self._current.excerpt(at - start).moved(start)


def open_text(path: str | os.PathLike[str]) -> Source:
    """Open a text file, or the text files of a folder."""
    if not Path(path).is_dir() or Path(path, META).exists():
        return open_source(path)  # It raises an error for a store.
    return SourceList(os.fspath(path), list_files(Path(path)))
