"""GraphGAN: its walks against an enumeration of all of them, its policy gradient against finite differences."""

import numpy as np
import pytest
from scipy.stats import chisquare

from conftest import checkerboard
from purerec.data.pairs import Csr
from purerec.engines.bpr import pack, unpack
from purerec.errors import ConfigError
from purerec.models.graphgan import GraphGAN, GraphGANGame
from purerec.training.run import Run

#        items 0  1  2  3  4
LIKES = [
    [0, 1],  # the root
    [0, 2],
    [1, 2, 3],
    [3, 4],  # shares no item with the root: item 4 is too far away
    [1],  # nothing new behind this one
]
DIM = 2


def positives():
    user = np.repeat(np.arange(len(LIKES)), [len(row) for row in LIKES])
    return Csr.of(user, np.concatenate(LIKES), (len(LIKES), 5))


def made_up(seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return {
        "user": rng.normal(0, scale, (len(LIKES), DIM)),
        "item": rng.normal(0, scale, (5, DIM)),
        "item_bias": rng.normal(0, scale, 5),
    }


def softmax(scores):
    shares = np.exp(scores - np.max(scores))
    return shares / shares.sum()


def ends(p, root=0):
    """(n_items,) the probability that a walk ends at each item, by enumerating all walks."""

    def g(user, item):
        return p["user"][user] @ p["item"][item]

    found = np.zeros(5)
    for item, to_item in zip(
        LIKES[root], softmax([g(root, i) + p["item_bias"][i] for i in LIKES[root]]), strict=True
    ):
        others = [user for user, row in enumerate(LIKES) if item in row and user != root]
        if not others:
            found[item] += to_item
            continue
        *to_users, back = softmax([g(user, item) for user in [*others, root]])
        found[item] += to_item * back
        for user, to_user in zip(others, to_users, strict=True):
            new = [i for i in LIKES[user] if i not in LIKES[root]]
            if not new:
                found[item] += to_item * to_user
                continue
            for i, last in zip(new, softmax([g(user, i) + p["item_bias"][i] for i in new]), strict=True):
                found[i] += to_item * to_user * last
    return found


def game(params, d_bias=None, **settings):
    model = GraphGAN(dim=DIM, game_regularization=0.0, **settings)
    made = GraphGANGame(model, positives(), seed=4)
    made.engine.restore({name: value.astype(np.float32) for name, value in params.items()})
    if d_bias is not None:
        d = unpack(made.discriminator, DIM)
        made.discriminator = pack(d["user"] * 0, d["item"], np.asarray(d_bias, np.float32))
    return made


def test_walks_end_where_the_tree_says():
    params = made_up()
    made = game(params, d_bias=np.zeros(5), generator_rate=1e-9, walks=5_000)
    counts = np.zeros(5)
    made.play("generator", "test", 1e-9, np.zeros(3))
    # The walks of the last root are still there; find a pass in which that was root 0.
    for number in range(100):
        made.play("generator", f"{number}", 1e-9, np.zeros(3))
        if made._walks.order[-1] == 0:
            counts += np.bincount(made._walks.ends, minlength=5)
            if counts.sum() >= 15_000:
                break
    chance = ends(params)
    assert chance.sum() == pytest.approx(1)
    assert chance[4] == counts[4] == 0
    assert chisquare(counts[:4], counts.sum() * chance[:4]).pvalue > 1e-3


def test_the_policy_gradient_climbs_the_expected_reward():
    params, d = made_up(1, 0.7), np.array([0.5, -1.0, 2.0, -0.3, 0.0])
    rate, times = 1e-2, 200
    reward = np.log1p(np.exp(d))

    def expected(p):
        return sum(ends(p, root) @ reward for root in range(len(LIKES)))

    climbed = {name: np.zeros_like(value) for name, value in params.items()}
    for number in range(times):
        made = game(params, d_bias=d, walks=200)
        made.play("generator", f"{number}", rate, np.zeros(3))
        for name, value in made.engine.state().items():
            climbed[name] += (value - params[name].astype(np.float32)) / rate / times
    for name, value in params.items():
        for k in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[k] = 1e-5
            slope = (expected(params | {name: value + step}) - expected(params | {name: value - step})) / 2e-5
            assert climbed[name][k] == pytest.approx(slope, abs=0.03)


def test_nodes_with_many_neighbours_are_cut_to_distinct_ones():
    made = game(made_up(), branching=2, walks=200)
    made.play("generator", "test", 1e-9, np.zeros(3))
    w = made._walks
    steps = [s for s in range(w.node.size) if w.node[s] >= 0]
    assert steps
    for s in steps:
        options = w.options[s * 3 : s * 3 + w.n_options[s]]
        assert len(set(options.tolist())) == len(options) <= 3
        assert w.shares[s * 3 : s * 3 + w.n_options[s]].sum() == pytest.approx(1, abs=1e-5)


def test_the_discriminator_learns_the_edges():
    made = game(made_up(), discriminator_rate=0.2)
    sums = [np.zeros(2) for _ in range(60)]
    for number, found in enumerate(sums):
        made.play("discriminator", f"{number}", 0.2, found)
    assert sums[-1][0] / sums[-1][1] < sums[0][0] / sums[0][1]


@pytest.mark.parametrize("start", ["random", "pretrained"])
def test_it_learns(start):
    model = GraphGAN(start=start, dim=4).fit(checkerboard(), seed=0)
    found = model.recommend(k=1)
    assert (found["user"] == found["item"]).mean() >= 0.9
    assert {record.phase for record in model.history.records} == {"pre-training", "game"}


@pytest.mark.parametrize("stop", [4, 8, 10])
def test_a_resumed_run_ends_in_the_same_bits(stop, tmp_path):
    data = checkerboard()
    make = lambda: GraphGAN(epochs=12, pretrain_epochs=8, branching=3)  # noqa: E731
    whole = make().fit(data, seed=2)
    make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=2, stop_after=stop))
    resumed = make().fit(data, seed=2, run=Run(checkpoint=tmp_path / "c", resume=True))
    np.testing.assert_array_equal(resumed.score(np.arange(20)), whole.score(np.arange(20)))


def test_more_pre_training_than_epochs_is_refused():
    with pytest.raises(ConfigError, match="pretrain_epochs=9 is more than epochs=5"):
        GraphGAN(epochs=5, pretrain_epochs=9)
