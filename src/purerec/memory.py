"""How much memory a piece of work takes at its peak."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Peak:
    """The largest resident memory of this process from here on, where the system can reset it (Linux).

    Elsewhere it is the largest since the process began, and `own` is False.
    """

    def __init__(self) -> None:
        self.own = _reset()
        self.before_mb = _status("VmRSS") or float("nan")

    @property
    def mb(self) -> float:
        """The peak so far."""
        return (_status("VmHWM") if self.own else None) or whole_peak_mb()


def whole_peak_mb() -> float:
    """The largest resident memory of this process since it began."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _reset() -> bool:
    try:
        _REFERENCES.write_text("5")  # proc(5): resets the peak ("high water mark") of the resident set
    except OSError:
        return False
    return True


def _status(name: str) -> float | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) / 2**10 for line in lines if line.startswith(name + ":")), None)
