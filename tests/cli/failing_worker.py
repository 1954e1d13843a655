"""Workers that fail in a different way in each attempt; see `test_workers`.

`torchrun -m cli.failing_worker fit ...` is `torchrun -m purerec fit ...` with such workers.
"""

import os

import purerec
from purerec.cli import main
from purerec.engines.distributed import helping


def install():
    if os.environ["RANK"] == "0":
        return
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        helping.follow_reading = out_of_memory
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "1":
        purerec.__version__ = "0.0.1"


def out_of_memory(*_):
    raise MemoryError


if __name__ == "__main__":
    install()
    main()
