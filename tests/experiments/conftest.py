"""Results of tests are kept separate from real ones."""

import pytest


@pytest.fixture(autouse=True)
def own_cells(tmp_path, monkeypatch):
    from purerec.experiments import compare
    from purerec.experiments.cells.cell import CellStore

    store = tmp_path / "cells"
    monkeypatch.setattr(compare, "cell_store", lambda *, fresh=False: CellStore(store, fresh=fresh))
