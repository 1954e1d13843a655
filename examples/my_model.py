"""A custom model: items that were liked by the same people, the more people the better.

    purerec compare ml-100k --models my_model:TogetherLiked,itemknn,pure
    purerec fit ml-100k --model my_model:TogetherLiked --set shrink=20 --out model
    purerec recommend model --import my_model:TogetherLiked --user 196

Run these in the folder of this file. In Python, `pr.register(TogetherLiked)` makes it known by its name.
"""

import numpy as np


class TogetherLiked:
    """Items that were liked together with those of the person."""

    name = "together"  # how it is called in tables and folders
    search_space = {"shrink": (1.0, 100.0)}  # for `purerec tune`

    def __init__(self, shrink: float = 10.0):  # its settings, for --set
        self.shrink = shrink

    def fit(self, train):
        liked = train.positives.to_scipy().astype(np.float32)  # users x items, by internal index
        both = (liked.T @ liked).toarray()
        one = both.diagonal().copy()
        np.fill_diagonal(both, 0)
        # Names that end in an underscore are what is stored: numbers, and arrays of numbers.
        self.near_ = both / (np.sqrt(np.outer(one, one)) + self.shrink)
        self.starts_, self.items_ = liked.indptr, liked.indices

    def score(self, user_idx):
        own = [self.items_[self.starts_[u] : self.starts_[u + 1]] for u in user_idx]
        return np.stack([self.score_history(item_idx) for item_idx in own])

    def score_history(self, item_idx):  # for people who were not in training
        return self.near_[item_idx].sum(axis=0)
