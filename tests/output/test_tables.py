"""Tables that are written part by part: complete or not at all, and in little memory."""

import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from purerec.errors import StoreError
from purerec.output.tables import write_parts


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_an_error_half_way_leaves_the_earlier_file(suffix, tmp_path):
    target = tmp_path / f"recs{suffix}"
    target.write_text("an earlier file")

    def parts():
        yield pl.DataFrame({"user": [1], "item": [2]})
        raise StoreError("the disk is on fire")

    with pytest.raises(StoreError, match="on fire"):
        write_parts(target, parts())
    assert target.read_text() == "an earlier file"
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_interruption_leaves_nothing(suffix, tmp_path):
    code = f"""
import time, polars as pl
from purerec.output.tables import write_parts
def parts():
    for n in range(1000):
        time.sleep(.02)
        yield pl.DataFrame({{"user": range(1000)}})
        print("part", flush=True)
write_parts("recs{suffix}", parts())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(3):
        process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path):
    """Thirty times the rows take hardly more memory."""
    code = """
import resource, sys, numpy as np, polars as pl
from purerec.output.tables import write_parts
parts = (pl.DataFrame({"user": np.full(100_000, n), "score": np.random.default_rng(n).random(100_000)})
         for n in range(int(sys.argv[1])))
write_parts("recs.parquet", parts)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    peaks = []
    for n in (10, 300):
        done = subprocess.run(
            [sys.executable, "-c", code, str(n)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env=os.environ,
        )
        peaks.append(float(done.stdout))
    assert peaks[1] < peaks[0] + 100  # all rows would take 480 MB
