"""Files, settings and commands changed at random: they work, or are refused on purpose."""

import gzip
import random

import polars as pl
import pytest

from attack.inputs import GOOD, ends_well, write
from purerec.data.readers import read, read_labels
from purerec.tuning.settings_file import settings_from

SEEDS = [
    GOOD,
    'user,item,title\nann,b-1,"A, ""title"""\nbob,ü,x\n'.encode(),
    b"1::2::3::978300760\n4::5::3::978300761\n",
    b"user_id:token\titem_id:token\nx\ty\nz\tw\n",
    b"user,item,time\n1,2,2001-01-01\n3,4,2001-01-02 10:00:00\n",
]
PIECES = [
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b",",
        b'"',
        b'""',
        b"\0",
        b"\xef\xbb\xbf",
        b"\xff",
        b"::",
        b":",
        b"\t",
        b" ",
        b";",
        b"|",
        b"\x1f",
    ),
    *(b"1e400", b"-1", b"nan", b"+7", b"007", b"1_0", b"99999999999999999999", b"-9223372036854775808", b"9" * 5000),
    *(b"user", b"item", b"10000-01-01", b"2001-13-45", b"\xc2\x85", b"\xed\xa0\x80", b"\x1a"),
]


def mutated(rng, content):
    content = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(content))
        match rng.randrange(5):
            case 0:
                content[at : at + rng.choice([0, 1, 3])] = rng.choice(PIECES)
            case 1:
                content[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                del content[at : at + rng.randint(1, 20)]
            case 3:
                content = content[:at]
            case 4:
                content[at:at] = rng.choice(PIECES) * rng.choice([1, 2, 5])
    return bytes(content)


def random_options(rng):
    options = {
        "user": ["user", "item", "1", 0, "x", ""],
        "item": ["item", "user", 1, 9],
        "rating": ["rating", "user", "3", 2],
        "timestamp": ["timestamp", "item", "4"],
        "header": [True, False],
        "delimiter": [",", "\t", "::", "|", "x"],
        "encoding": ["latin-1", "utf-16", "utf-7", "zip", "ascii", "utf-8-sig", "shift_jis", "utf-32", "punycode"],
        "positive_rating": [3, 0, -1],
    }
    return {name: rng.choice(values) for name, values in options.items() if rng.random() < 0.1}


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_read_or_refused(tmp_path, seed):
    rng = random.Random(seed)
    read_well = 0
    for _ in range(150):
        options, name = random_options(rng), rng.choice(["a.csv", "a.tsv", "a.dat", "a.inter", "a", "a.csv.gz"])
        content = mutated(rng, rng.choice(SEEDS))
        if name.endswith(".gz"):
            content = mutated(rng, gzip.compress(content)) if rng.random() < 0.5 else gzip.compress(content)
        path = write(tmp_path, name, content)
        read_well += ends_well(lambda path, options=options: read(path, **options).fingerprint, path)
        ends_well(read_labels, path)
    assert read_well  # otherwise nothing beyond the first checks was tested


@pytest.mark.parametrize("seed", range(2))
def test_mutated_settings_are_read_or_refused(tmp_path, seed):
    rng = random.Random(seed)
    whole = b'data = "x"\n[models.bpr]\nsettings = { dim = 5, epochs = 80, schedule = "cosine", patience = "none" }\n'
    for _ in range(100):
        ends_well(lambda path: settings_from(path, "bpr"), write(tmp_path, "s.toml", mutated(rng, whole)))


def test_random_commands_succeed_or_are_refused(command, tmp_path):
    rng = random.Random(0)
    write(tmp_path, "bad.csv.gz", gzip.compress(GOOD)[:-20])
    write(tmp_path, "t.csv", "item,title\ni1,One\n")
    pl.DataFrame({"user": [[1], [2]], "item": [1, 2]}).write_parquet(tmp_path / "list.parquet")
    values = {
        "--user": ["user", "item", "1", ""],
        "--rating": ["rating", "user"],
        "--timestamp": ["timestamp", "rating"],
        "--min-rating": ["4", "nan", "inf", "9", "1e400"],
        "--encoding": ["zip", "latin-1", "utf-16", "\udcff"],
        "--split": ["ratio", "temporal", "leave_n_out", "weekly"],
        "--at": ["1900-01-01", "2001-01-02", "2100-01-01", "9" * 400],
        "--n": ["1", "0", "999", "9" * 30],
        "--test": ["0.2", "0", "nan", "1e400"],
        "--split-seed": ["1", "-1", "9" * 30],
        "--set": ["dim=true", "dim", "x=y", "=", "dim=\udcff"],
        "--settings": ["good.csv", "nothing", "."],
    }
    codes = set()
    for _ in range(60):
        data = rng.choice(["good.csv"] * 5 + ["bad.csv.gz", "list.parquet", ".", "nothing.csv", "x" * 300, ""])
        args = ["evaluate", data, "--model", rng.choice(["itempop", "itempop", "nothing"])]
        for option in rng.sample(sorted(values), rng.randint(1, 3)):
            args += [option, rng.choice(values[option])]
        code, said = command(*args)
        assert code in (0, 2), (args, said)
        codes.add(code)
    assert codes == {0, 2}
