"""GraphGAN's walks and steps, compiled.

The BFS tree of a user in the graph of positives: the user, the user's items (depth 1), other users of these (depth
2), and their items that the user has not touched (depth 3), where it is cut. It is never built. A walk expands only
the nodes it visits, each to at most `branching` random neighbours one step further from the root, so its cost
depends neither on the size of the graph nor on a node's degree. In a bipartite graph, the distance from the root is
known without a search: items at depth 1 are the user's; all others are deeper.

    p(next | node) = softmax over the node's children and parent of g(next).g(node)      (graph softmax)

A walk goes down from the root and ends at the item where it turns back to the parent, or at depth 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from purerec.engines.bpr import FactorTables, score_pair
from purerec.engines.irgan import Rates, label_step
from purerec.jit.counter_rng import mulhi, shuffle, splitmix64
from purerec.jit.decorator import Scalar, kernel
from purerec.jit.simd import LANES, load, sigmoid_softplus, splat, store, total
from purerec.sampling.draws import Tables, is_observed
from purerec.sampling.dynamic import unit
from purerec.types import F32, F64, I32, I64

STEPS = 3
"""Maximum steps of a walk: to an item, to another user of it, to one of their items."""
_ONE = np.float32(1.0)


class Graph(NamedTuple):
    """The positives from the items' side; the users' side is in the tables of the sampler."""

    indptr: I64
    """(n_items + 1,)"""
    users: I32
    branching: int


class Walks(NamedTuple):
    """The steps of n walks, and scratch. Step s of walk k has index k * STEPS + s."""

    order: I32
    """(n_users,)"""
    node: I32
    """(n * STEPS,) where the step started: a user for steps 0 and 2, an item for step 1; -1: no such step"""
    n_options: I32
    """(n * STEPS,) number of nodes it could lead to"""
    chosen: I32
    """(n * STEPS,) which of them it led to"""
    options: I32
    """(n * STEPS * (branching + 1),) the nodes"""
    shares: F32
    """Their probabilities"""
    ends: I32
    """(n,) the items where walks ended"""
    rewards: F64
    """(n,)"""


@kernel(inner=True)
def _neighbours(
    rows: I32, first: Scalar, last: Scalar, branching: Scalar, key: Scalar, number: Scalar, out: I32, at: Scalar
) -> Scalar:
    """Take all of rows[first:last] if there are few, else distinct random ones; return their number."""
    if last - first <= branching:
        for k in range(last - first):
            out[at + k] = rows[first + k]
        return np.int64(last - first)
    n = np.int64(0)
    for k in range(branching):
        pick = np.int64(mulhi(splitmix64(key, number + np.uint64(k)), np.uint64(last - first)))
        node, is_new = rows[first + pick], True
        for j in range(n):
            if out[at + j] == node:
                is_new = False
        if is_new:
            out[at + n] = node
            n += 1
    return n


@kernel(inner=True)
def _choose(w: Walks, step: Scalar, at: Scalar, n: Scalar, x: Scalar) -> Scalar:
    """Draw from the softmax over the n scores in w.shares from `at` on; return the place chosen."""
    top = w.shares[at]
    for k in range(1, n):
        top = max(top, w.shares[at + k])
    mass = np.float32(0.0)
    for k in range(n):
        w.shares[at + k] = np.float32(math.exp(w.shares[at + k] - top))
        mass += w.shares[at + k]
    level, found = np.float32(x), n - 1
    for k in range(n):
        w.shares[at + k] /= mass
    for k in range(n - 1):
        level -= w.shares[at + k]
        if level < 0:
            found = k
            break
    w.n_options[step], w.chosen[step] = n, found
    return found


@kernel(inner=True)
def walk(
    t: Tables, graph: Graph, g: FactorTables, w: Walks, k: Scalar, root: Scalar, key: Scalar, number: Scalar
) -> Scalar:
    """Take walk `number` from a root with an item, recorded as walk k of `w`; return the item where it ends."""
    room = graph.branching + 1
    counter = np.uint64(number) * np.uint64(STEPS * room)
    step = k * STEPS
    w.node[step + 1] = w.node[step + 2] = -1

    at = step * room
    w.node[step] = np.int32(root)
    n = _neighbours(
        t.indices, t.indptr[root], t.indptr[root + 1], graph.branching, key, counter, w.options, at
    )  # fmt: skip
    for j in range(n):
        w.shares[at + j] = score_pair(g, root, np.int64(w.options[at + j]))
    x = splitmix64(key, counter + np.uint64(graph.branching))
    item = np.int64(w.options[at + _choose(w, step, at, n, unit(x))])

    step, at, counter = step + 1, at + room, counter + np.uint64(room)
    n_all = _neighbours(
        graph.users, graph.indptr[item], graph.indptr[item + 1], graph.branching, key, counter, w.options, at
    )  # fmt: skip
    n = np.int64(0)
    for j in range(n_all):
        if w.options[at + j] != root:
            w.options[at + n] = w.options[at + j]
            n += 1
    if n == 0:
        return item
    w.node[step] = np.int32(item)
    w.options[at + n] = np.int32(root)  # back to the parent: the walk ends here
    for j in range(n + 1):
        w.shares[at + j] = score_pair(g, np.int64(w.options[at + j]), item)
    x = splitmix64(key, counter + np.uint64(graph.branching))
    found = _choose(w, step, at, n + 1, unit(x))
    if found == n:
        return item
    user = np.int64(w.options[at + found])

    step, at, counter = step + 1, at + room, counter + np.uint64(room)
    n_all = _neighbours(
        t.indices, t.indptr[user], t.indptr[user + 1], graph.branching, key, counter, w.options, at
    )  # fmt: skip
    n = np.int64(0)
    for j in range(n_all):
        if not is_observed(t, root, np.int64(w.options[at + j])):
            w.options[at + n] = w.options[at + j]
            n += 1
    if n == 0:
        return item
    w.node[step] = np.int32(user)
    for j in range(n):
        w.shares[at + j] = score_pair(g, user, np.int64(w.options[at + j]))
    x = splitmix64(key, counter + np.uint64(graph.branching))
    return np.int64(w.options[at + _choose(w, step, at, n, unit(x))])


@kernel(inner=True)
def _climb(g: FactorTables, w: Walks, k: Scalar, room: Scalar, push: Scalar, r: Rates) -> None:
    """Add push * grad log p(walk k) to the generator, with L2 on the vectors it touches.

    grad log p(chosen | node) = sum over options of (1 if chosen - p) * grad g(option).g(node)
    """
    keep = _ONE - np.float32(r.learning_rate * r.regularization / w.ends.size)
    for step in range(k * STEPS, (k + 1) * STEPS):
        if w.node[step] < 0:
            continue
        by_user = step % STEPS != 1
        mine, theirs = (g.user, g.item) if by_user else (g.item, g.user)
        node = np.int64(w.node[step]) * g.width
        for j in range(w.n_options[step]):
            other = np.int64(w.options[step * room + j])
            share = w.shares[step * room + j]
            chosen = j == w.chosen[step]
            slope = np.float32(push) * ((_ONE if chosen else np.float32(0.0)) - share)
            fade = keep if chosen else _ONE
            for at in range(0, g.width, LANES):
                a, b = load(mine, node + at), load(theirs, other * g.width + at)
                store(mine, node + at, a * fade + b * slope)
                store(theirs, other * g.width + at, b * fade + a * slope)
            if by_user:
                g.bias[other] += slope


@kernel()
def discriminator_pass(
    t: Tables,
    graph: Graph,
    g: FactorTables,
    d: FactorTables,
    w: Walks,
    r: Rates,
    order_key: Scalar,
    key: Scalar,
    sums: F64,
) -> None:
    """One pass over the positives, each paired with the end of a walk. sums: loss, steps."""
    shuffle(w.order, order_key)
    for k in range(w.order.size):
        root = np.int64(w.order[k])
        for at in range(t.indptr[root], t.indptr[root + 1]):
            end = walk(t, graph, g, w, 0, root, key, at)
            loss = label_step(d, root, np.int64(t.indices[at]), _ONE, r) + label_step(
                d, root, end, np.float32(0.0), r
            )
            sums[0] += 0.5 * np.float64(loss)
            sums[1] += 1.0


@kernel()
def generator_pass(
    t: Tables,
    graph: Graph,
    g: FactorTables,
    d: FactorTables,
    w: Walks,
    r: Rates,
    order_key: Scalar,
    key: Scalar,
    sums: F64,
) -> None:
    """Take several walks for each user, and a policy gradient step with their mean reward as the baseline.

    The reward is softplus(d) = -log(1 - D). sums: reward, walks, walks that ended at unobserved items.
    """
    shuffle(w.order, order_key)
    n, room = w.ends.size, graph.branching + 1
    for k in range(w.order.size):
        root = np.int64(w.order[k])
        if t.indptr[root] == t.indptr[root + 1]:
            continue
        mean = 0.0
        for s in range(n):
            end = walk(t, graph, g, w, s, root, key, root * n + s)
            _, plus = sigmoid_softplus(splat(score_pair(d, root, end)))
            w.ends[s], w.rewards[s] = np.int32(end), np.float64(total(plus)) / LANES
            mean += w.rewards[s] / n
            sums[2] += 0.0 if is_observed(t, root, end) else 1.0
        # The mean of the others is the baseline: (n / (n - 1)) (r - mean of all).
        for s in range(n):
            push = r.learning_rate / (n - 1) * (w.rewards[s] - mean)
            _climb(g, w, s, room, push, r)
        sums[0] += mean * n
        sums[1] += n
