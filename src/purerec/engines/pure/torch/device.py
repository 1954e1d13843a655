"""Where torch computes: the GPU of this process if there is one, otherwise one thread of the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def own_device() -> torch.device:
    """A GPU if there is one; processes that were started together on a machine take one each, in turn."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one CPU thread: sums have a fixed order, and the bits do not depend on the number of cores.

    Steps are small, so little is lost; on a busy machine of two cores a second thread made them ten times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
