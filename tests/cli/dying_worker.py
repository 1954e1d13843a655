"""Workers that are killed (SIGKILL): a different one in each of the first attempts, at a different moment.

`torchrun -m cli.dying_worker fit ...` is `torchrun -m purerec fit ...` with such workers. What happened is recorded
in the folder DYING_TOLD.
"""

import os
import signal
import time
from pathlib import Path

from purerec.cli import main
from purerec.engines.distributed import stored
from purerec.engines.distributed.crew import Crew
from purerec.storage import folders

EPOCH, CHECKPOINT, PARTS = "in the middle of an epoch", "before a checkpoint is committed", "between its parts"
DEATHS = [(1, EPOCH), (0, CHECKPOINT), (1, PARTS)][: int(os.environ.get("DYING_TIMES", 3))]
"""By attempt: who dies, and when"""
SAVED, LETHAL = 10, 14
"""Epochs of the last whole checkpoint, and those after which a worker dies when its moment comes"""


def what_happens(times):
    """What is recorded after this many deaths, by file name."""
    died = {f"died-{n}": f"{rank} {when}" for n, (rank, when) in enumerate(DEATHS[:times])}
    return died | {f"began-{n}": str(SAVED * (n > 0)) for n in range(times + 1)}


def told():
    return {path.name: path.read_text() for path in Path(os.environ["DYING_TOLD"]).iterdir()}


def _tell(name, what):
    Path(os.environ["DYING_TOLD"], f"{name}-{os.environ['TORCHELASTIC_RESTART_COUNT']}").write_text(what)


def wait_for_part(path):
    """Wait for the other worker's part."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def install():
    """Make the workers of the next fit in this process mortal."""
    last = -1
    discriminator, rotate, write_part, put_in_place = (
        Crew.discriminator,
        Crew._rotate,
        stored.write_state_part,
        folders.put_in_place,
    )

    def may_die(moment):
        rank, attempt = os.environ.get("RANK", ""), int(os.environ.get("TORCHELASTIC_RESTART_COUNT", len(DEATHS)))
        if (
            last >= LETHAL
            and attempt < len(DEATHS)
            and (rank, moment) == (str(DEATHS[attempt][0]), DEATHS[attempt][1])
        ):
            _tell("died", f"{rank} {moment}")
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal_discriminator(self, *, epoch, **options):
        nonlocal last
        if last < 0 and os.environ["RANK"] == "0":
            _tell("began", str(epoch))
        last = epoch
        return discriminator(self, epoch=epoch, **options)

    def mortal_rotate(self, turn):
        rotate(self, turn)
        may_die(EPOCH)

    def mortal_write_part(path, *what):
        if path.name.endswith("-00001.safetensors"):
            wait_for_part(path.with_name(path.name.replace("-00001.", "-00000.")))
            may_die(PARTS)
        return write_part(path, *what)

    def mortal_put_in_place(work, target):
        may_die(CHECKPOINT)
        put_in_place(work, target)

    Crew.discriminator, Crew._rotate = mortal_discriminator, mortal_rotate
    stored.write_state_part, folders.put_in_place = mortal_write_part, mortal_put_in_place


if __name__ == "__main__":
    install()
    main()
