"""The batches of an epoch: positives in random order, with unlabeled pairs and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from purerec.data.pairs import Csr
from purerec.engines.pure.spec import Batch, GameSettings
from purerec.engines.source import check_learnable
from purerec.rng import key64
from purerec.sampling.dynamic import chosen_places
from purerec.sampling.unlabeled import UnlabeledSampler
from purerec.types import F32, I32

Phi = Callable[[I32, I32], F32]
"""Scores of pairs, (n,) users and (n,) items to (n,)"""


class BatchMaker:
    """Makes batches from these positives. What it draws depends on the seed and on how much was drawn before.

    Unlabeled pairs are drawn for random users among `asked`; None: for those of the batch's positives in turn.
    """

    def __init__(self, positives: Csr, settings: GameSettings, seed: int, asked: I32 | None = None) -> None:
        check_learnable(positives)
        n_items = positives.shape[1]
        self.sampler = UnlabeledSampler(positives.indptr, positives.indices, n_items, full_users="skip")
        self.settings, self.seed, self._asked = settings, seed, asked
        self.draws = 0
        """Unlabeled pairs drawn so far"""
        self._positives, self._pos_user, self._pos_item = positives, positives.users, positives.indices
        self._numbers = self._pos_user.astype(np.int64) * n_items + self._pos_item
        """The positives as numbers, ascending"""

    def epoch(self, rng: np.random.Generator, phi: Phi, *, use_fakes: bool) -> Iterator[Batch]:
        """Lines 5 to 8: all positives in random order, each batch with its share of unlabeled and fakes."""
        s = self.settings
        order = rng.permutation(self._pos_user.size)
        starts = range(0, order.size, s.batch_size)
        for number, start in enumerate(starts):
            chosen = order[start : start + s.batch_size]
            user, item = self._pos_user[chosen], self._pos_item[chosen]
            # The difference of two floors: the shares differ by at most one and add up to the whole.
            upto = [(number + k) * s.unlabeled_per_epoch // len(starts) for k in (0, 1)]
            if s.unlabeled == "shared":
                unl_user, unl_item, n_crossed = self._shared(self._users(user, user.size, rng), rng)
            else:
                unl_user, unl_item = self._unlabeled(self._users(user, upto[1] - upto[0], rng))
                unl_item = self._choose(unl_user, unl_item, phi, rng)
                n_crossed = unl_user.size
            n_fakes = round(s.fake_ratio * n_crossed) if use_fakes else 0
            yield Batch(user, item, unl_user, unl_item, *self._noise(n_fakes, rng))

    def for_generators(self, rng: np.random.Generator) -> Batch:
        """Lines 12 and 13: noise, and unlabeled pairs whose item or user it will replace."""
        chosen = rng.integers(self._pos_user.size, size=self.settings.batch_size)
        user, item = self._unlabeled(self._pos_user[chosen])
        nobody = user[:0]
        return Batch(nobody, nobody, user, item, *self._noise(user.size, rng))

    def _users(self, of_batch: I32, n: int, rng: np.random.Generator) -> I32:
        """(n,) the users for whom unlabeled pairs are drawn."""
        return np.resize(of_batch, n) if self._asked is None else self._asked[rng.integers(self._asked.size, size=n)]

    def _unlabeled(self, user: I32) -> tuple[I32, I32]:
        """One pair for each given user (none for a user who touched every item), or as many from all users."""
        stream = {"seed": self.seed, "counter": self.draws}
        self.draws += user.size
        if self.settings.unlabeled == "global":
            return self.sampler.pairs(user.size, **stream)
        if self.settings.unlabeled == "popularity":
            item = self.sampler.popular_items_for(user, **stream)
        else:
            item = self.sampler.items_for(user, **stream)
        return user[item >= 0], item[item >= 0]

    def _shared(self, user: I32, rng: np.random.Generator) -> tuple[I32, I32, int]:
        """Each of these users with each of some items, without observed pairs; and the most that get fakes.

        Ordered by item, so that fakes are spread over the users.
        """
        n_items = self._positives.shape[1]
        n = self.settings.shared_items(len(self._positives), n_items)
        drawn = rng.permutation(n_items)[:n].astype(np.int32)
        unl_user, unl_item = np.tile(user, n), np.repeat(drawn, user.size)
        numbers = unl_user.astype(np.int64) * n_items + unl_item
        place = np.minimum(np.searchsorted(self._numbers, numbers), self._numbers.size - 1)
        free = self._numbers[place] != numbers
        return unl_user[free], unl_item[free], min(user.size, n, int(free.sum()))

    def _choose(self, user: I32, item: I32, phi: Phi, rng: np.random.Generator) -> I32:
        """Dynamic negatives: choose among each item and `candidates` - 1 further draws for its user."""
        s, more = self.settings, self.settings.candidates - 1
        if s.negatives == "uniform" or more == 0 or not user.size:
            return item
        # A separate stream, at a position that depends on what was drawn so far.
        draw = self.sampler.popular_items_for if s.unlabeled == "popularity" else self.sampler.items_for
        seed, counter = int(key64(self.seed, "candidates")), (self.draws - user.size) * more
        others = draw(np.repeat(user, more), seed=seed, counter=counter)
        candidates = np.column_stack([item, others.reshape(-1, more)])
        scores = phi(np.repeat(user, more + 1), candidates.ravel())
        x = rng.random(len(user)) if s.negatives == "drns" else np.zeros(len(user))
        place = chosen_places(scores.reshape(candidates.shape), s.negatives, x)
        chosen: I32 = candidates[np.arange(len(user)), place]
        return chosen

    def _noise(self, n: int, rng: np.random.Generator) -> Iterator[F32]:
        """Eq. (noise_input), for the item and for the user generator; none for one that does not exist."""
        s = self.settings
        for side, dim in (("item", s.dim_i), ("user", s.dim)):
            shape = (n if side in s.generators_of else 0, dim)
            yield rng.standard_normal(shape, dtype=np.float32) * np.float32(s.noise)
