"""How many source files one `fit` and one `recommend` go through: `python tests/walks.py` prints them.

Counted on a second call, when imports are done, and in Python only: kernels are compiled. The settings of a model are
checked before, when it is made, in one file more. Two numbers:

    files    those with any function that runs, however small: a vocabulary's `len`, a named generator
    steps    those whose functions call functions of two or more other files. To follow a call you read these; the
             others answer a question and return

For comparison: the tree from before it was divided into packages (70d878d^) has 16 files and 6 steps for a fit, 12
and 4 for a list. That fit had neither weights between items, nor a choice of how much they count, nor workers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import purerec as pr

SOURCE = str(Path(pr.__file__).parent) + "/"


@dataclass(frozen=True)
class Walk:
    """Which files called functions of which others."""

    calls: dict[str, set[str]]

    @property
    def files(self) -> list[str]:
        return sorted(self.calls)

    @property
    def steps(self) -> list[str]:
        return sorted(name for name, others in self.calls.items() if len(others) > 1)


def walk(call: Callable[[], object]) -> Walk:
    found: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        here = frame.f_code.co_filename.removeprefix(SOURCE)
        found.setdefault(here, set())
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        if caller is not None and (there := caller.f_code.co_filename.removeprefix(SOURCE)) != here:
            found.setdefault(there, set()).add(here)

    call()
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return Walk(found)


def walks() -> dict[str, Walk]:
    """`fit` of PURE, by default and in the paper's form, and `recommend_for` of a new person."""
    log = pr.make_world(users=600, items=60, interactions=6000, prior=0.3).observed
    few: dict[str, Any] = {"epochs": 2, "pretrain_epochs": 1}
    model, free = pr.PURE(**few), pr.PURE(**few, users="free", dim=5)
    model.fit(log)
    history = [str(item) for item in log.items.ids.head(3).to_list()]

    def first_list() -> None:
        model._commit(model.learned, model.known, model.fitted_on)  # forgets what is derived from them
        model.recommend_for(history)

    return {
        "fit": walk(lambda: model.fit(log)),
        "fit, users='free', dim=5": walk(lambda: free.fit(log)),
        "the first recommend_for(history)": walk(first_list),
        "recommend_for(history)": walk(lambda: model.recommend_for(history)),
    }


if __name__ == "__main__":
    for name, found in walks().items():
        print(f"{name}: {len(found.files)} files, {len(found.steps)} steps")
        for file in found.files:
            print("  ", "*" if file in found.steps else " ", file)
