"""Ingest a CSV into a data set in parts, in bounded memory, compared with polars and DuckDB on the same file.

    python benchmarks/ingest.py [--json FILE] [--rows 10000000] [--folder /tmp]

Polars' streaming engine and DuckDB (if installed) do the core of the work: find distinct users and items, number
them, and write rows by part of the user. They check less: no id is kept as written, no row is named. Each
runs in its own process, whose time and peak memory are reported.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from purerec.experiments.provenance import library_versions, write_results

PARTS = 32

WORK = {
    "purerec": """
from purerec.storage.ingest.ingest import ingest
found = ingest(path, out, partitions=parts, memory_mb=memory_mb)
rows, users, items = found.facts.rows, found.n_users, found.n_items
""",
    "polars": """
import polars as pl
log = pl.scan_csv(path)
ids = {}
for side in ("user_id", "item_id"):
    ids[side] = log.select(pl.col(side).unique().sort()).collect(engine="streaming").with_row_index(side[:4])
    ids[side].write_parquet(f"{out}-{side}.parquet")
log = log.join(ids["user_id"].lazy(), on="user_id").join(ids["item_id"].lazy(), on="item_id")
log = log.select("user", "item", "rating", "timestamp", part=pl.col("user_id") % parts)
log.sink_parquet(pl.PartitionBy(out, key="part", include_key=False), mkdir=True)
rows, users, items = log.select(pl.len()).collect(engine="streaming").item(), len(ids["user_id"]), len(ids["item_id"])
""",
    "duckdb": """
import duckdb
db = duckdb.connect(out + ".db", config={"memory_limit": f"{memory_mb}MB", "threads": 2})
db.sql("set preserve_insertion_order = false")
db.sql(f"create view log as from read_csv('{path}')")
for side in ("user", "item"):
    db.sql(f"create table {side}s as select {side}_id, row_number() over (order by {side}_id) - 1 as {side} "
           f"from (select distinct {side}_id from log)")
db.sql(f'''copy (select users.user, items.item, rating, timestamp, user_id % {parts} as part
    from log join users using (user_id) join items using (item_id))
    to '{out}' (format parquet, partition_by (part))''')
rows, users, items = db.sql(
    "select (select count(*) from log), (select count(*) from users), (select count(*) from items)"
).fetchall()[0]
""",
}
FRAME = """
import json, resource, sys, time
path, out, parts, memory_mb = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
start = time.perf_counter()
{work}
print(json.dumps({{"seconds": round(time.perf_counter() - start, 1),
    "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024), "rows": rows, "users": users,
    "items": items}}))
"""


def make_file(path: Path, rows: int) -> None:
    """50 rows per person, 50,000 items or more, popular ones more often."""
    rng = np.random.default_rng(0)
    at_once = 5_000_000
    with path.open("wb") as file:
        for start in range(0, rows, at_once):
            n = min(at_once, rows - start)
            table = pl.DataFrame(
                {
                    "user_id": rng.integers(0, max(1, rows // 50), n) * 7 + 1_000_003,
                    "item_id": (max(50_000, rows // 500) * rng.random(n) ** 3).astype(np.int64),
                    "rating": rng.integers(1, 6, n),
                    "timestamp": rng.integers(1_000_000_000, 1_600_000_000, n),
                }
            )
            table.write_csv(file, include_header=start == 0)


def run(name: str, path: Path, memory_mb: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        command = [sys.executable, "-c", FRAME.format(work=WORK[name]), path, f"{folder}/out", PARTS, memory_mb]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode:
            return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        found: dict[str, object] = json.loads(done.stdout)
        return found | {"written_mb": round(size / 2**20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-mb", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the file, three times as large")
    parser.add_argument("--only", help="names, separated by commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [n for n in WORK if n != "duckdb" or _has("duckdb")]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "log.csv"
        start = time.perf_counter()
        make_file(path, options.rows)
        found: dict[str, object] = {"rows": options.rows, "file_mb": round(path.stat().st_size / 2**20)}
        found |= {"memory_mb": options.memory_mb, "versions": library_versions(("polars", "pyarrow", "duckdb"))}
        print(f"made in {time.perf_counter() - start:.0f} s", file=sys.stderr)
        for name in names:
            found[name] = run(name, path, options.memory_mb)
            print(name, found[name], file=sys.stderr)
    text = json.dumps(found, indent=2)
    print(text)
    if options.json:
        write_results(options.json, found)


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


if __name__ == "__main__":
    main()
