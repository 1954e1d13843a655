"""Times as people write them."""

from __future__ import annotations

import re

from purerec.errors import ConfigError

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(limit: str | float) -> float:
    """A limit in seconds; text is '90', '90s', '5m', '1h' or '1h30m'."""
    text = limit.strip().lower() if isinstance(limit, str) else f"{limit:f}"
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", text)
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not total > 0:
        raise ConfigError(f"a time limit is given as 90s, 5m or 1h, not as {limit!r}")
    return total
