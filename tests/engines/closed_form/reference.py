"""Item weights in double precision, directly from the equations, one column at a time."""

import numpy as np

from purerec.data.pairs import Csr


def random_positives(seed=0, n=400, users=40, items=25):
    rng = np.random.default_rng(seed)
    return Csr.of(rng.integers(0, users, n), (rng.random(n) ** 2 * items).astype(int), (users, items))


def dense(positives):
    x = np.zeros(positives.shape)
    x[positives.users, positives.indices] = 1
    return x


def counts(positives):
    x = dense(positives)
    return np.maximum(x.sum(axis=1), 1), np.maximum(x.sum(axis=0), 1)


def products(positives, user_power=0.0, item_power=0.0):
    n_user, n_item = counts(positives)
    w = dense(positives) * n_user[:, None] ** -user_power * n_item**-item_power
    return w.T @ w


def neighbors_of(g, n_item, i, neighbors):
    """Those with the largest product, then the less popular, then the first."""
    order = np.lexsort((np.arange(len(g)), n_item, -np.float32(g[i])))
    return order[(order != i) & (g[i, order] > 0)][:neighbors]


def weights(positives, regularization, user_power=0.0, item_power=0.0, neighbors=None):
    g, (_, n_item) = products(positives, user_power, item_power), counts(positives)
    b = np.zeros_like(g)
    for i in range(len(g)):
        others = np.delete(np.arange(len(g)), i)
        chosen = others if neighbors is None else neighbors_of(g, n_item, i, neighbors)
        system = g[np.ix_(chosen, chosen)] + regularization * np.eye(len(chosen))
        b[chosen, i] = np.linalg.solve(system, g[chosen, i])
    return b * n_item[:, None] ** -item_power * n_item**item_power
