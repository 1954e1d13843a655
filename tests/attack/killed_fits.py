"""Fits that are killed at every single file operation, in forks of one process; see test_kills.

    python killed_fits.py FOLDER exchange|steps     what `purerec fit` does with files, killed at every operation
    python killed_fits.py FOLDER command            `purerec fit` itself, killed while it removes its checkpoint

Prints one line for each moment tried.
"""

import os
import signal
import sys
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from command_forks import import_purerec
from purerec.cli import commands
from purerec.storage import locked, read_folder, remove_folder, swapping, take_snapshot, write_folder
from purerec.training.checkpoints import CHECKPOINT
from purerec.training.loop import run_epochs
from purerec.training.run import Run

EVENTS = (
    "open",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.chmod",
    "os.truncate",
    "os.listdir",
    "os.scandir",
)
EPOCHS = 7


class Walk:
    """A game that takes no time."""

    def __init__(self):
        self.x = np.zeros(1)

    def epoch(self, number):
        self.x = self.x + number
        return {"loss": float(self.x[0])}

    def state(self):
        return {"x": self.x}

    def restore(self, state, number):
        self.x = state["x"]


def fit(place, seed, resume):
    """Fit as the command does."""
    out, checkpoint = place / "m", place / "m.checkpoint"
    with locked(out):
        game = Walk()
        run = Run(checkpoint=checkpoint, checkpoint_epochs=3, resume=resume, log=place / "log.jsonl")
        run_epochs(game, epochs=EPOCHS, run=run, identity={"seed": seed})
        tensors, more = {"x": game.x}, {"report.html": b"curves"}
        write_folder(out, kind="model", manifest={"seed": seed}, tensors=tensors, files=more)
        remove_folder(checkpoint, kind=CHECKPOINT)
    return 0


def command(place, seed, resume):
    sys.argv = ["purerec", "fit", f"{place}/d.csv", "--model", "bpr", "--out", f"{place}/m"]
    sys.argv += ["--set", "epochs=14", "--seed", str(seed), "--log", f"{place}/log.jsonl", *["--resume"] * resume]
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        return commands.run()


def main(place, how):
    if how == "steps":
        swapping.exchange = lambda one, other: False
    if how == "command":
        sys.modules["vl_convert"] = None  # no charts in the report: drawing them takes longer than everything else
        import_purerec()  # once, not in every fork
    work, epochs = (command, 14) if how == "command" else (fit, EPOCHS)
    assert forked(lambda: work(place, 0, False)) == 0
    clean = sorted(p.name for p in place.iterdir())
    events = forked_text(lambda: seen(place, work)).split()
    moments = range(len(events))
    if how == "command":  # those at which the checkpoint is removed
        moments = [n for n in moments if events[n] in ("os.remove", "os.rmdir")][-4:]
    for moment in moments:
        status = forked(partial(killed, place, moment, work))
        assert status == -signal.SIGKILL, (moment, status)
        assert forked(partial(load, place / "m")) == 0, (moment, os.listdir(place))
        assert forked(partial(work, place, moment + 1, bool(moment % 2))) == 0, moment
        assert sorted(p.name for p in place.iterdir()) == clean, (moment, os.listdir(place))
        assert (place / "log.jsonl").read_text().count("\n") == epochs, moment
        print(moment, events[moment], flush=True)


def load(out):
    read_folder(out, kind="model")
    take_snapshot(out, kind="model").close()
    return 0


def watch(place, call):
    """Call `call` before every operation on a file in the folder."""

    def hook(event, args):
        if event in EVENTS and isinstance(args[0], str | bytes | os.PathLike) and str(place) in os.fsdecode(args[0]):
            call(event)

    sys.addaudithook(hook)


def seen(place, work):
    events = []
    watch(place, events.append)
    work(place, 0, False)
    return " ".join(events)


def killed(place, moment, work):
    left = iter([*[False] * moment, True])
    watch(place, lambda _: os.kill(os.getpid(), signal.SIGKILL) if next(left, False) else None)
    return work(place, moment + 1, False)


def forked(work):
    """The exit code of a function in a fork, or minus the signal that ended it."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        except Exception as error:
            print(repr(error), file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def forked_text(work):
    """The return value of a function in a fork, as text."""
    reading, writing = os.pipe()

    def write():
        os.write(writing, str(work()).encode())
        return 0

    assert forked(write) == 0
    return os.read(reading, 1 << 16).decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
