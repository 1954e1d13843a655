import numpy as np

from purerec.memory import Peak


def test_the_peak_is_that_of_the_work_and_not_of_what_was_before():
    np.ones(40_000_000)  # 320 MB, given back
    peak = Peak()
    small = peak.mb
    np.ones(20_000_000)
    assert peak.mb >= small + (100 if peak.own else 0)
    assert not peak.own or peak.mb < small + 300
