"""Which code a result depends on, also without a file."""

import subprocess
import sys
from textwrap import dedent

import pytest

import purerec as pr
from purerec.evaluation.code_digest import code_of, code_of_metric
from purerec.models.registry import model_class

MINE = """
    import functools
    import numpy as np
    import purerec as pr

    ALPHA, TABLE, KINDS = 2.0, np.arange(3), {"a", "b", "c"}

    def helper(x):
        return ALPHA * x

    @functools.cache
    def cached(x):
        return helper(x) + len(KINDS)

    class Base:
        def score(self, user_idx):
            return np.tile(self.pop_, (len(user_idx), 1))

    @pr.register
    class Mine(Base):
        name = "mine_of_a_notebook"
        search_space = {"a": (0.1, 1.0)}

        def __init__(self, a: float = 1.0):
            self.a = a

        def fit(self, train):
            self.pop_ = np.sum([cached(c) for c in train.positives.item_counts]) + TABLE[0]

        @property
        def half(self):
            return self.a / 2
"""


@pytest.fixture
def notebook(monkeypatch):
    """Runs cells, one after the other, and gives the digest of the class after each."""
    main = type(sys)("notebook_of_mine")
    monkeypatch.setitem(sys.modules, main.__name__, main)

    def ran(text):
        exec(dedent(text), vars(main))
        return code_of(model_class(pr.models.registry.model_name(main.Mine)))

    return ran


def test_code_without_a_file_counts_with_all_it_names(notebook):
    first = notebook(MINE)
    assert notebook("unused = object()") == first
    assert notebook(MINE) == first
    changes = [
        ("ALPHA * x", "ALPHA + x"),
        ("ALPHA, TABLE, KINDS = 2.0", "ALPHA, TABLE, KINDS = 3.0"),
        ("np.arange(3)", "np.arange(1, 4)"),
        ('"b", "c"', '"b", "d"'),
        ("+ TABLE[0]", "- TABLE[0]"),
        ("np.tile(self.pop_,", "np.tile(-self.pop_,"),
        ("self.a / 2", "self.a / 3"),
        ("+ len(KINDS)", "- len(KINDS)"),
    ]
    found = {notebook(MINE.replace(old, new)) for old, new in changes}
    assert len(found | {first}) == 1 + len(changes)
    assert notebook(MINE) == first
    assert notebook("ALPHA = 5.0") != first  # another cell than that of the class


def test_a_model_that_derives_from_recommender_has_a_digest_too(notebook):
    text = """
        import purerec as pr
        from purerec.models.contract.config import Config

        class MineConfig(Config):
            a: float = 1.0

        class Mine(pr.ItemPop):
            name = "derived_in_a_notebook"
            config_class = MineConfig

            def _fit(self, train, valid, seed, run):
                return super()._fit(train, valid, seed, run)
    """
    first = notebook(text)
    assert notebook(text) == first
    assert notebook(text.replace("super()", "pr.ItemPop")) != first


def test_without_a_digest_nothing_is_reused(notebook):
    """An object in memory can be anything."""
    text = MINE.replace("ALPHA * x", "THING.scaled(x)") + "\n    THING = object()\n"
    assert notebook(text) != notebook(text)


def test_a_metric_counts_with_all_it_names(monkeypatch):
    main = type(sys)("notebook_of_metrics")
    monkeypatch.setitem(sys.modules, main.__name__, main)
    text = """
        import purerec as pr
        WEIGHT = 1
        @pr.register_metric
        def hits_of_a_notebook(ranks):
            return WEIGHT * len(ranks)
    """
    exec(dedent(text), vars(main))
    first = code_of_metric("hits_of_a_notebook")
    assert code_of_metric("hits_of_a_notebook") == first
    main.WEIGHT = 2
    assert code_of_metric("hits_of_a_notebook") != first
    assert code_of_metric("P@5") is None


def test_a_digest_is_the_same_in_every_process(tmp_path):
    """Whether read from a prompt or from stdin; after `python -i file.py`, the class made last counts."""
    said = (
        "\nfrom purerec.evaluation.code_digest import code_of\nprint(code_of(pr.make_model(Mine.name).__class__))\n"
    )
    (tmp_path / "file.py").write_text(dedent(MINE))

    def digest(*how, text=dedent(MINE)):
        run = subprocess.run([sys.executable, *how], input=text + said, capture_output=True, text=True, check=True)
        return run.stdout.split()[-1]

    first = digest("-")
    assert digest("-") == first
    assert digest("-", text=dedent(MINE).replace("ALPHA * x", "ALPHA + x")) != first
    made = "class Mine(Base):\n    name = 'other'\n    def fit(self, train): pass\n\npr.register(Mine)\n"
    one, two = (digest("-i", tmp_path / "file.py", text=made.replace("pass", what)) for what in ("pass", "0 / 0"))
    assert one != two
