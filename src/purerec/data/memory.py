"""The peak memory of a piece of work, and the memory available."""

from __future__ import annotations

import sys
from pathlib import Path

_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """The peak resident memory of this process from now on, if the system can reset it (Linux).

    Otherwise it is the peak since the process started, and `own` is False.
    """

    def __init__(self) -> None:
        self.own = _reset()
        self.before_mb = _status("VmRSS") or float("nan")

    @property
    def mb(self) -> float:
        """The peak so far."""
        return (_status("VmHWM") if self.own else None) or whole_peak_mb()


def whole_peak_mb() -> float:
    """The peak resident memory of this process since it started."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def available_mb() -> float | None:
    """The memory that this process can still use without displacing others, if the system reports it (Linux).

    The minimum of the machine's free memory and of what the container's limit and `ulimit -v` leave; None on other
    systems.
    """
    found = [_table(_MEMINFO).get("MemAvailable"), _left_in_container(), _left_of_addresses()]
    return min((mb for mb in found if mb is not None), default=None)


def _left_in_container() -> float | None:
    """cgroup v2: the limit minus the memory used, not counting the file cache, which can be reclaimed."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no such limit ("max"), or not Linux
        return None
    return max(0, limit - used + int(stat.get("inactive_file", 0))) / 2**20


def _left_of_addresses() -> float | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _status("VmSize")
    return None if limit == resource.RLIM_INFINITY or used is None else max(0.0, limit / 2**20 - used)


def _reset() -> bool:
    try:
        _REFERENCES.write_text("5")  # proc(5): resets the peak ("high water mark") of the resident set
    except OSError:
        return False
    return True


def _status(name: str) -> float | None:
    return _table(_STATUS).get(name)


def _table(path: Path) -> dict[str, float]:
    """The sizes in a file of lines such as `VmRSS:  1024 kB`, in MB; empty if there is no such file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {}
    fields = [line.split() for line in lines]
    return {f[0].rstrip(":"): float(f[1]) / 2**10 for f in fields if len(f) == 3 and f[2] == "kB"}
