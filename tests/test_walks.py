"""A fit and a list go through few files; see `walks` for what is counted."""

import pytest

from walks import walk, walks


def test_a_walk_has_the_files_that_ran_and_who_called_whom():
    from purerec.engines.pure.spec import GameSettings
    from purerec.rng import named_rng

    assert walk(lambda: named_rng(0, "a")).calls == {"rng.py": set()}
    found = walk(lambda: GameSettings().logistic)
    assert found.calls == {"engines/pure/spec.py": {"paper/risks.py"}, "paper/risks.py": set()}
    assert found.steps == []


@pytest.fixture(scope="module")
def found():
    return walks()


def test_fit_leads_through_a_bounded_number_of_files(found):
    usual, free = found["fit"], found["fit, users='free', dim=5"]
    assert len(usual.steps) <= 14, usual.steps
    assert len(usual.files) <= 38, usual.files
    assert len(free.steps) <= 10, free.steps
    assert len(free.files) <= 27, free.files


def test_a_list_leads_through_a_bounded_number_of_files(found):
    listed = found["recommend_for(history)"]
    assert len(listed.steps) <= 3, listed.steps
    assert len(listed.files) <= 11, listed.files
    first = found["the first recommend_for(history)"]
    assert len(first.steps) <= 9, first.steps
    assert len(first.files) <= 20, first.files
