"""A small log with text ids and some titles."""

import numpy as np

import purerec as pr

N_USERS, N_ITEMS = 30, 23


def small_log():
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(N_USERS), 6), rng.integers(0, N_ITEMS, 6 * N_USERS)
    item[:N_ITEMS] = np.arange(N_ITEMS)
    data = pr.Interactions.from_columns([f"u{u}" for u in user], [f"i{i:02}" for i in item], name="small")
    return data.with_labels({f"i{i:02}": f"Title {i}" for i in range(0, N_ITEMS, 2)})
