"""From files and tables to Interactions: CSV, TSV, `.dat`, `.inter`, `.rating`, Parquet, gzip; pandas, polars,
Arrow, scipy.

The fast path hands the file to polars with the types that its first lines suggest. Whatever polars refuses, and
whatever it would accept but change (an id such as 007), is read again as text, where every value can be checked
and the offending row named.
"""

from __future__ import annotations

import gzip
import mmap
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl

from purerec.checking import checked
from purerec.errors import ReadError
from purerec.interactions import Interactions
from purerec.sniffing import CANONICAL_INTEGER, Layout, Role, find_roles, sniff, split_line

_SAMPLE_BYTES = 1 << 16

Columns = dict[Role, str | int | None]


def read(
    source: Any,
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    rating: str | int | None = None,
    timestamp: str | int | None = None,
    label: str | int | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    positive_rating: float | None = None,
    name: str | None = None,
) -> Interactions:
    """Read interactions from a path, a pandas/polars/Arrow table or a scipy sparse matrix.

    Columns are found by their names (user, user_id, uid, customer, ...; item, movieId, sku, ...) or, without a
    header, by position: user, item, rating, timestamp. Name them to overrule that. `positive_rating` says from
    which rating on a row counts as a positive; without it every row does.
    """
    columns: Columns = {"user": user, "item": item, "rating": rating, "timestamp": timestamp, "label": label}
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        where = str(path)
        table, first_row = _read_path(path, columns, delimiter=delimiter, header=header, encoding=encoding)
        name = name or _stem(path)
    else:
        where, first_row = name or "table", 0
        table = _from_object(source, columns, where)
    data = checked(table, where=where, first_row=first_row, name=name or "data")
    return data.with_positives(positive_rating) if positive_rating is not None else data


def read_labels(
    path: str | os.PathLike[str],
    *,
    item: str | None = None,
    label: str | None = None,
    encoding: str = "utf-8",
) -> dict[str, str]:
    """Item titles from a file with an item and a title column, for `Interactions.with_labels`."""
    where = str(path)
    raw = _bytes_of(Path(path), encoding)
    columns: Columns = {"item": item, "label": label}
    layout = sniff(
        _decoded_sample(raw, where),
        where=where,
        suffix=Path(path).suffix.lower(),
        columns=columns,
        required=("item", "label"),
    )
    text = _text_columns(raw, layout, where).drop_nulls()
    return dict(zip(text["item"].to_list(), text["label"].to_list(), strict=True))


# ---------------------------------------------------------------------- files


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name


def _read_path(
    path: Path, columns: Columns, *, delimiter: str | None, header: bool | None, encoding: str
) -> tuple[pl.DataFrame, int]:
    where = str(path)
    if path.is_dir():
        raise ReadError(f"{where}: is a directory; give the file of interactions inside it")
    if not path.exists():
        raise ReadError(f"{where}: there is no such file; check the path, or see `purerec data list` for names")
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path, columns), 0
    raw = _bytes_of(path, encoding)
    layout = sniff(
        _decoded_sample(raw, where),
        where=where,
        suffix=suffix,
        delimiter=delimiter,
        header=header,
        columns=columns,
    )
    table = _read_typed(path, raw, layout)
    if table is None:
        table = _read_as_text(raw, layout, where)
    return table, 1 + layout.has_header


def _read_parquet(path: Path, columns: Columns) -> pl.DataFrame:
    where = str(path)
    try:
        names = list(pl.read_parquet_schema(path))
        roles = find_roles(names, columns, where=where)
        table = pl.read_parquet(path, columns=[names[n] for n in roles.values()])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ReadError(f"{where}: not a readable Parquet file ({_first_line(error)})") from None
    return table.select([pl.col(names[n]).alias(role) for role, n in roles.items()])


def _bytes_of(path: Path, encoding: str) -> bytes | mmap.mmap:
    """The content as UTF-8, without a copy where the file is that already."""
    where = str(path)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            if not magic:
                raise ReadError(f"{where}: the file is empty; give a file with one interaction per line")
            if magic[:2] == b"\x1f\x8b":
                raw: bytes | mmap.mmap = gzip.decompress(magic + file.read())
            else:
                raw = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, EOFError) as error:
        raise ReadError(f"{where}: cannot be read ({_first_line(error)})") from None
    if raw[:4] in (b"PAR1", b"PK\x03\x04") or (encoding == "utf-8" and raw.find(b"\0", 0, _SAMPLE_BYTES) >= 0):
        remedy = "name it .parquet" if raw[:4] == b"PAR1" else "give CSV, TSV, .dat, .inter or Parquet"
        raise ReadError(f"{where}: is a binary file, not text; {remedy}")
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        try:
            return bytes(raw).decode(encoding).encode()
        except (UnicodeDecodeError, LookupError) as error:
            raise ReadError(f"{where}: cannot be read as {encoding} ({_first_line(error)})") from None
    return raw


def _decoded_sample(raw: bytes | mmap.mmap, where: str) -> str:
    sample = raw[:_SAMPLE_BYTES]
    if len(raw) > _SAMPLE_BYTES:
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    try:
        return sample.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _raise_encoding(sample, error, where)


def _raise_encoding(raw: bytes, error: UnicodeDecodeError, where: str) -> NoReturn:
    row = raw.count(b"\n", 0, error.start) + 1
    raise ReadError(
        f"{where}: row {row} is not UTF-8 (byte 0x{raw[error.start]:02x}); save it as UTF-8 or pass "
        "encoding='latin-1' (--encoding latin-1) if that is what it is"
    ) from None


def _read_typed(path: Path, raw: bytes | mmap.mmap, layout: Layout) -> pl.DataFrame | None:
    """Straight into numbers where the first lines say so; None where that fails or could change an id."""
    types: dict[Role, pl.DataType] = {}
    for role, n in layout.roles.items():
        cells = [row[n] for row in layout.sample if n < len(row)]
        if role in ("user", "item"):
            whole = all(CANONICAL_INTEGER.match(cell) for cell in cells)
            types[role] = pl.Int64() if whole else pl.String()
        elif role == "rating":
            types[role] = pl.Float32()
        elif role == "timestamp":
            if all(re.fullmatch(r"\d+", cell.strip()) for cell in cells):
                types[role] = pl.Int64()
            elif all(re.fullmatch(r"\d+\.\d*(e[+-]?\d+)?", cell.strip(), re.I) for cell in cells):
                types[role] = pl.Float64()
            else:
                types[role] = pl.String()
        else:
            types[role] = pl.String()
    ids_as_numbers = pl.Int64() in (types["user"], types["item"])
    if ids_as_numbers and _may_have_unusual_integers(raw):
        return None
    source: Path | bytes = path if isinstance(raw, mmap.mmap) else raw
    try:
        return _polars_csv(source, layout, types)
    except pl.exceptions.PolarsError:
        return None


def _polars_csv(source: Path | bytes, layout: Layout, types: dict[Role, pl.DataType]) -> pl.DataFrame:
    # polars separates by one byte only; with '::' every second column is the empty one between the colons.
    step = 2 if layout.delimiter == "::" else 1
    schema: dict[str, pl.DataType] = {f"column_{n}": pl.String() for n in range(step * (len(layout.names) - 1) + 1)}
    for role, n in layout.roles.items():
        schema[f"column_{step * n}"] = types[role]
    table = pl.read_csv(
        source,
        has_header=False,
        skip_lines=1 if layout.has_header else 0,
        separator=layout.delimiter[0],
        schema=schema,
        columns=[f"column_{step * n}" for n in sorted(layout.roles.values())],
        quote_char='"' if step == 1 else None,
        glob=False,
    )
    return table.select([pl.col(f"column_{step * n}").alias(role) for role, n in layout.roles.items()])


def _may_have_unusual_integers(raw: bytes | mmap.mmap) -> bool:
    """Whether some number is spelled 007 or +7 or ' 7', which parsing as an integer would not give back."""
    view = np.frombuffer(raw, dtype=np.uint8)
    chunk = 1 << 17  # stays in the cache through the passes over it
    for start in range(0, len(view), chunk):
        part = view[max(start - 1, 0) : start + chunk + 1]
        if (part == 43).any() or (part == 32).any():  # '+' or ' '
            return True
        before, here, after = part[:-2], part[1:-1], part[2:]
        zero = here == 48
        zero &= (before - np.uint8(48)) > 9  # no digit before it
        if zero.any():  # rare: a number that starts with 0
            at = np.flatnonzero(zero)
            leading = (after[at] - np.uint8(48)) <= 9  # a digit after it
            if (leading & (before[at] != 46)).any() or (before[at] == 45).any():  # but 4.05 is no 05, and -0
                return True
    return bool(len(view) > 1 and view[0] == 48 and 48 <= view[1] <= 57)


def _read_as_text(raw: bytes | mmap.mmap, layout: Layout, where: str) -> pl.DataFrame:
    """Every column as text, and ids to integers where all of them are, spelled as integers are."""
    text = _text_columns(raw, layout, where)
    for role in ("user", "item"):
        numbers = text[role].cast(pl.Int64, strict=False)
        same = numbers.cast(pl.String) == text[role]
        if numbers.null_count() == text[role].null_count() and bool(same.all()):
            text = text.with_columns(numbers)
    return text


def _text_columns(raw: bytes | mmap.mmap, layout: Layout, where: str) -> pl.DataFrame:
    content = bytes(raw)
    if layout.delimiter == "::":
        content = content.replace(b"::", b"\x1f")
        layout = replace(layout, delimiter="\x1f")
    try:
        return _polars_csv(content, layout, {role: pl.String() for role in layout.roles})
    except pl.exceptions.PolarsError as error:
        _raise_for_text(content, layout, where, error)


def _raise_for_text(raw: bytes, layout: Layout, where: str, error: Exception) -> NoReturn:
    try:
        content = raw.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        _raise_encoding(raw, bad, where)
    for row, line in enumerate(content.splitlines(), start=1):
        fields = split_line(line, layout.delimiter)
        if line.strip() and len(fields) != len(layout.names):
            _raise_field_count(where, row, len(fields), len(layout.names))
    raise ReadError(f"{where}: cannot be read as delimited text ({_first_line(error)})") from None


def _raise_field_count(where: str, row: int, n: int, expected: int) -> NoReturn:
    raise ReadError(
        f"{where}: row {row} has {n} field{'s' * (n != 1)} where the first has {expected}; "
        "mend or remove the row (quote fields that contain the delimiter)"
    ) from None


# ---------------------------------------------------------------------- tables


def _from_object(source: Any, columns: Columns, where: str) -> pl.DataFrame:
    module = type(source).__module__.split(".")[0]
    if module == "scipy":
        coo = source.tocoo()
        table = pl.DataFrame({"user": coo.row.astype(np.int64), "item": coo.col.astype(np.int64)})
        values = np.asarray(coo.data)
        if len(values) and not (values == 1).all():
            table = table.with_columns(pl.Series("rating", values.astype(np.float64)))
        return table
    if isinstance(source, pl.LazyFrame):
        source = source.collect()
    if module == "pandas":
        names = [str(c) for c in source.columns]
        roles = find_roles(names, columns, where=where)
        return pl.DataFrame([_from_pandas(source.iloc[:, n]).alias(role) for role, n in roles.items()])
    if module == "pyarrow":
        source = pl.from_arrow(source)
    if not isinstance(source, pl.DataFrame):
        raise ReadError(
            f"cannot read a {type(source).__name__}; give a path, a pandas, polars or Arrow table, "
            "or a scipy sparse matrix"
        )
    roles = find_roles(source.columns, columns, where=where)
    return source.select([pl.col(source.columns[n]).alias(role) for role, n in roles.items()])


def _from_pandas(series: Any) -> pl.Series:
    values = series.to_numpy()
    if values.dtype.kind in "iufbM":
        return pl.Series(values)
    return pl.Series([None if v is None or v != v else v for v in series.to_list()], strict=False)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
