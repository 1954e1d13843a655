"""The work of all processes but the first, until the first one is done."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from purerec.engines.distributed import alternating, crew
from purerec.engines.distributed.gram import follow_products
from purerec.engines.distributed.group import Group
from purerec.engines.distributed.reading import Held, follow_reading
from purerec.errors import SharedError


class Helper(Protocol):
    """A task that all processes have started together."""

    def do(self, told: dict[str, Any]) -> None: ...


_BEGIN: dict[str, Callable[[Group, dict[str, Any], Held | None], Helper]] = {
    "game": crew.follow,
    "alternation": lambda group, told, _: alternating.follow(group, told),
}


def serve(group: Group) -> None:
    """Carry out the first process's commands."""
    helper: Helper | None = None
    held: Held | None = None
    while (told := group.hear())["do"] != "end":
        with suppress(SharedError):  # also raised in the first process, which decides what to do next
            if told["do"] == "gram":
                follow_products(group, told)
            elif told["do"] == "read":
                held = follow_reading(group, told)
            elif told["do"] == "begin":
                helper = None  # frees memory before the next one needs it
                helper = _BEGIN[told["what"]](group, told, held)
            else:
                assert helper is not None
                helper.do(told)
