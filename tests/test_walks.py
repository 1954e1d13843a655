"""A fit and a list stay short walks; see `walks` for what is counted."""

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
    assert len(found["fit"].steps) <= 17, found["fit"].steps
    assert len(found["fit, users='free'"].steps) <= 12, found["fit, users='free'"].steps


def test_a_list_leads_through_a_bounded_number_of_files(found):
    assert len(found["recommend_for(history)"].steps) <= 11
    assert len(found["recommend_for(history)"].files) <= 18, found["recommend_for(history)"].files
