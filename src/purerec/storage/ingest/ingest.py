"""`purerec ingest`: from files of any size to a data set in parts.

First, every file is read piece by piece, and each piece is checked and spilled to disk (`spilling`). Then the
vocabularies and rows are merged, part by part (`merging`). If the work is interrupted, finished pieces are kept, and
`resume` continues after them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from purerec.data.large.chunks import HowToRead, Position, chunks, expected_rows
from purerec.data.large.dataset import DATASET, Dataset, DatasetFacts
from purerec.data.large.places import Place, is_url
from purerec.data.text.sniffing import ColumnRoles, plain_name
from purerec.errors import ConfigError, DataError, ReadError, StoreError
from purerec.storage.folders import check_target, discard, new_folder, write_folder
from purerec.storage.ingest.merging import merge
from purerec.storage.ingest.spilling import Piece, read_piece, spill
from purerec.storage.locks import locked
from purerec.storage.manifests import MANIFEST, marker, read_manifest, write_manifest
from purerec.storage.paths import AnyPath, beside, status
from purerec.storage.temporary import temporary_folder

_UNFINISHED = "unfinished data set"
"""The kind of folder that holds the pieces"""
_TEXT = (".csv", ".tsv", ".txt", ".dat", ".inter", ".rating", ".parquet", ".pq")
_FEWEST_PARTS, _MOST_PARTS = 16, 4096
_PART_ROWS = 4_000_000
_FEWEST_MB = 64

Stage = Literal["reading", "writing"]
IngestProgress = Callable[[Stage, int, int], None]
"""Called with the stage, the amount done and the total, if known"""


def ingest(
    files: Iterable[AnyPath] | AnyPath,
    out: AnyPath,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    timestamp: str | int | None = None,
    label: str | int | None = None,
    encoding: str = "utf-8",
    partitions: int | None = None,
    memory_mb: float = 1000,
    resume: bool = False,
    progress: IngestProgress | None = None,
) -> Dataset:
    """Turn CSV or Parquet files of any size into a data set that `read` and several workers can read.

    `files` are paths or URLs, or folders of such files; `out` is a folder or a URL. Columns are named or found as in
    `read`. `partitions` is the number of parts that users are spread over, and thus the maximum number of workers;
    None: 16, more for large files. `memory_mb` is a rough limit on memory.
    """
    places = files_in([files] if isinstance(files, str | os.PathLike) else list(files))
    _check_options(partitions, memory_mb)
    columns: ColumnRoles = {"user": user, "item": item, "rating": rating, "timestamp": timestamp, "label": label}
    how = HowToRead(columns, encoding, chunk_bytes=int(memory_mb * 2**20 / 16))
    n_parts = partitions or _default_parts(sum(expected_rows(place) for place in places))
    work = _Work(places, how, n_parts, progress or (lambda stage, done, all_of_it: None))
    name = _name(places)
    if is_url(os.fspath(out)):
        return _remote(work, Place(os.fspath(out)), name)
    target = Path(out)
    check_target(target, kind=DATASET)  # before any work is done
    with locked(target):
        folder = beside(target, ".ingest")
        pieces = work.spilled(folder, resume=resume)
        with new_folder(target, kind=DATASET) as new:
            facts = work.merged(pieces, new, name)
        discard(folder)
    return Dataset(Place(str(target)), facts)


@dataclass(frozen=True)
class _Work:
    places: list[Place]
    how: HowToRead
    n_parts: int
    progress: IngestProgress

    @property
    def identity(self) -> dict[str, Any]:
        found = {
            "files": [{"address": place.address, **place.version()} for place in self.places],
            "columns": self.how.columns,
            "encoding": self.how.encoding,
            "memory": self.how.chunk_bytes,
            "partitions": self.n_parts,
        }
        whole: dict[str, Any] = json.loads(json.dumps(found))
        return whole

    def spilled(self, folder: Path, *, resume: bool) -> list[Piece]:
        """All files in pieces."""
        pieces = self._begun(folder) if resume and status(folder) is not None else []
        if not pieces:
            self._begin(folder)
        try:
            self._go_on(pieces, folder)
        except DataError:  # these pieces are useless once the files are corrected
            discard(folder)
            raise
        return pieces

    def _go_on(self, pieces: list[Piece], folder: Path) -> None:
        """Read what comes after the existing pieces."""
        last = pieces[-1] if pieces else None
        first_file, start = (0, Position()) if last is None else (last.facts["file"], last.end)
        for number, place in enumerate(self.places):
            if number < first_file:
                continue
            for chunk in chunks(place, self.how, start):
                facts = {
                    "file": number,
                    "end": chunk.end.__dict__,
                    "found": {"names": chunk.columns.names, "by_position": chunk.columns.by_position},
                }
                piece = spill(chunk.data, folder / f"{len(pieces):06d}", self.n_parts, **facts)
                _check_alike(pieces[:1], piece, self.places)
                if not self.how.by_number:
                    _check_columns(pieces[:1], piece, self.places)
                pieces.append(piece)
                self.progress("reading", number, len(self.places))
            start = Position()
        if not pieces:
            raise DataError(f"{self.places[0]}: there are no interactions in it; give files with one per row")

    def merged(self, pieces: list[Piece], out: Path, name: str) -> DatasetFacts:
        def report(done: int, steps: int) -> None:
            self.progress("writing", done, steps)

        facts = merge(pieces, self.n_parts, out, name=name, progress=report)
        write_manifest(out, kind=DATASET, facts={"data": facts.model_dump()})
        return facts

    def _begin(self, folder: Path) -> None:
        if status(folder) is not None and os.listdir(folder):
            known = marker(folder)
            if known is None or known[0] != _UNFINISHED:
                raise StoreError(f"{folder} holds other files and is left as it is; move it, or choose another --out")
            discard(folder)
        write_folder(folder, kind=_UNFINISHED, manifest={"identity": self.identity}, tensors={})

    def _begun(self, folder: Path) -> list[Piece]:
        """The pieces of an interrupted run, up to the first that is missing."""
        found = read_manifest(folder, kind=_UNFINISHED)["identity"]
        for name, value in self.identity.items():
            if found.get(name) != value:
                raise StoreError(
                    f"{folder}: the {name} of the interrupted run differ from those given now; use the same files "
                    "and options, or leave --resume out"
                )
        pieces: list[Piece] = []
        while status(folder / f"{len(pieces):06d}" / MANIFEST) is not None:
            pieces.append(read_piece(folder / f"{len(pieces):06d}"))
        return pieces


def _remote(work: _Work, target: Place, name: str) -> Dataset:
    """Build it on this machine and copy it, with the manifest last, since only that makes it a data set."""
    with _scratch() as scratch:
        pieces = work.spilled(scratch / "pieces", resume=False)
        new = scratch / "new"
        new.mkdir()
        facts = work.merged(pieces, new, name)
        for file in sorted(new.iterdir(), key=lambda path: path.name == MANIFEST):
            (target / file.name).write(file.read_bytes())
    return Dataset(target, facts)


@contextmanager
def _scratch() -> Iterator[Path]:
    with temporary_folder(Path.cwd()) as folder:
        yield folder


def files_in(given: Sequence[AnyPath]) -> list[Place]:
    """The files, including those in folders."""
    found: list[Place] = []
    for source in given:
        place = Place(os.fspath(source))
        names = place.names()
        if names is None:
            found.append(place)
            continue
        inside = [place / name for name in names if name.lower().removesuffix(".gz").endswith(_TEXT)]
        if not inside:
            raise ReadError(f"{place}: there are no CSV or Parquet files in this folder; give files")
        found += inside
    if not found:
        raise ConfigError("no files are given; give at least one")
    return found


def _name(places: list[Place]) -> str:
    """The name of the (first) file without its suffix."""
    return places[0].name.removesuffix(".gz").rsplit(".", 1)[0] or places[0].name


def _default_parts(rows: int) -> int:
    parts = _FEWEST_PARTS
    while parts < _MOST_PARTS and rows / parts > _PART_ROWS:
        parts *= 2
    return parts


def _check_options(partitions: int | None, memory_mb: float) -> None:
    if partitions is not None and not 1 <= partitions <= _MOST_PARTS:
        raise ConfigError(f"partitions must be from 1 to {_MOST_PARTS}, not {partitions}")
    if not memory_mb >= _FEWEST_MB:
        raise ConfigError(f"memory_mb must be at least {_FEWEST_MB}, not {memory_mb:g}")


def _check_columns(first: list[Piece], piece: Piece, places: list[Place]) -> None:
    """Check that users and items come from the same columns in all files, or by position in all.

    Of a table that was cut, only the first part has a header.
    """
    for one in first:
        file, other = (places[found.facts["file"]] for found in (piece, one))
        here, there = (found.facts["found"] for found in (piece, one))
        if here["by_position"] != there["by_position"]:
            with_it, without = (other, file) if here["by_position"] else (file, other)
            raise ReadError(
                f"{without}: has no header, and {with_it} has, so their columns may differ in order; put the header "
                "into every file"
            )
        for role in ("user", "item"):
            name, known = here["names"][role], there["names"][role]
            if plain_name(name) != plain_name(known):
                fact = f"{file}: the {role} is in the column {name!r}, and in {other} it is in {known!r}"
                raise ReadError(f"{fact}; give the column the same name in all files")


def _check_alike(first: list[Piece], piece: Piece, places: list[Place]) -> None:
    """Check that either all files have ratings and times, or none."""
    for one in first:
        for name in ("rating", "timestamp"):
            has, had = (name in found.facts["columns"] for found in (piece, one))
            if has != had:
                with_it, without = (piece, one) if has else (one, piece)
                raise ReadError(
                    f"{places[without.facts['file']]}: has no {name}, and {places[with_it.facts['file']]} has; "
                    "give files with the same columns"
                )
