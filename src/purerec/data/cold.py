"""Users and items in the test part but not in train, about which a model knows nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from purerec.data.pairs import Csr
from purerec.errors import counted


@dataclass(frozen=True)
class Cold:
    """How much of a test part involves users and items without a positive in train or validation."""

    judged: int
    """Users with a test positive"""
    users: int
    """Those without a train positive"""
    positives: int
    """Test positives"""
    on_new_items: int
    """Those on items that nobody has in train"""
    items: int
    """Items that nobody has in train"""

    @classmethod
    def of(cls, known: Csr, test: Csr) -> Cold:
        judged, new_user = test.counts > 0, known.counts == 0
        new_item = known.item_counts == 0
        return cls(
            judged=int(np.count_nonzero(judged)),
            users=int(np.count_nonzero(judged & new_user)),
            positives=len(test),
            on_new_items=int(np.count_nonzero(new_item[test.indices])),
            items=int(np.count_nonzero(new_item & (test.item_counts > 0))),
        )

    def __bool__(self) -> bool:
        return bool(self.users or self.items)

    def describe(self) -> str:
        have, are = "has" if self.users == 1 else "have", "is" if self.on_new_items == 1 else "are"
        return (
            f"{self.users:,} of {counted(self.judged, 'user')} {have} no train positive, {self.on_new_items:,} of "
            f"{counted(self.positives, 'positive')} {are} on items that nobody has in train"
        )
