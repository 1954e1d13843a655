import subprocess
import sys

import numpy as np
import pytest

from purerec.data import memory
from purerec.data.memory import Peak


def test_the_peak_is_that_of_the_work_and_not_of_what_was_before():
    np.ones(40_000_000)  # 320 MB, released again
    peak = Peak()
    small = peak.mb
    np.ones(20_000_000)
    assert peak.mb >= small + (100 if peak.own else 0)
    assert not peak.own or peak.mb < small + 300


def test_what_is_free_is_the_least_of_machine_and_container(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable:    2097152 kB\nHugePages_Total: 0\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_mb() == 2048
    for name, text in (("max", "max"), ("current", "734003200"), ("stat", "anon 1\ninactive_file 209715200")):
        (tmp_path / f"memory.{name}").write_text(text + "\n")
    assert memory.available_mb() == 2048
    (tmp_path / "memory.max").write_text("1073741824\n")
    assert memory.available_mb() == 1024 - 700 + 200
    for path in tmp_path.iterdir():
        path.unlink()
    assert memory.available_mb() is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_what_is_free_heeds_a_limit_on_addresses():
    code = (
        "import resource; from purerec.data.memory import available_mb; "
        "resource.setrlimit(resource.RLIMIT_AS, (2 * 2**30, -1)); print(available_mb())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 2048
