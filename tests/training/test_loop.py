import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

from purerec.errors import ConfigError, DivergedError, StoreError
from purerec.storage import HEAD, read_folder, read_manifest, write_folder
from purerec.training.history import History, Record
from purerec.training.loop import run_epochs
from purerec.training.run import Run


class Walk:
    """A game whose state is one number and a counter; the k-th step depends on both."""

    def __init__(self, fail_at=None, value=np.nan):
        self.x, self.steps, self.fail_at, self.value = np.float64(1.0), 0, fail_at, value

    def epoch(self, number):
        self.x = self.x * 1.1 + np.sin(self.steps)
        self.steps += 1
        loss = self.value if number == self.fail_at else float(self.x)
        return {"loss": loss, "user_norm": 1.0}

    def state(self):
        return {"x": np.array([self.x]), "steps": np.array([self.steps])}

    def restore(self, state, number):
        self.x, self.steps = state["x"][0], int(state["steps"][0])
        assert self.steps == number


def go(game, tmp_path=None, epochs=20, run=None, **kwargs):
    return run_epochs(game, epochs=epochs, run=run or Run(), identity={"seed": 0}, **kwargs)


def test_every_epoch_is_recorded():
    seen = []
    history = go(Walk(), run=Run(callbacks=(seen.append,)))
    assert [r.epoch for r in history.records] == list(range(20))
    assert seen == history.records
    assert history.curve("loss")[3] == (3, history.records[3].values["loss"])


def test_early_stopping_goes_back_to_the_best():
    game = Walk()
    scores = iter([0.1, 0.3, 0.5, 0.4, 0.45, 0.2, 0.9])
    history = go(game, validate=lambda: next(scores), validate_every=2, patience=3)
    assert history.best_epoch == 5
    assert history.best_metric == 0.5
    assert game.steps == 6
    assert len(history.records) == 12
    assert "no better P@5" in history.stopped


def test_without_patience_validation_only_watches():
    game = Walk()
    history = go(game, validate=lambda: 0.5, validate_every=7)
    assert game.steps == 20
    assert [epoch for epoch, _ in history.curve("P@5")] == [6, 13, 19]


@pytest.mark.parametrize("stop", [1, 7, 10, 19])
def test_resumed_ends_in_the_same_bits(tmp_path, stop):
    whole = Walk()
    go(whole)
    run = Run(checkpoint=tmp_path / "c", checkpoint_epochs=1)

    def crash(record):
        if record.epoch == stop:
            raise RuntimeError("power cut")

    part = Walk()
    with pytest.raises(RuntimeError):
        go(part, run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=1, callbacks=(crash,)))
    again = Walk()
    history = go(again, run=Run(checkpoint=run.checkpoint, checkpoint_epochs=1, resume=True))
    assert again.x == whole.x
    assert [r.epoch for r in history.records] == list(range(20))


def test_resumed_early_stopping_remembers_the_best(tmp_path):
    def scores():
        yield from [0.1, 0.5, 0.3, 0.2, 0.4]

    plain, whole = scores(), Walk()
    expected = go(whole, validate=lambda: next(plain), validate_every=2, patience=3)
    stream, part = scores(), Walk()

    def crash(record):
        if record.epoch == 6:
            raise RuntimeError

    options = {"checkpoint": tmp_path / "c", "checkpoint_epochs": 2}
    with pytest.raises(RuntimeError):
        go(part, run=Run(**options, callbacks=(crash,)), validate=lambda: next(stream), validate_every=2, patience=3)
    again = Walk()
    history = go(again, run=Run(**options, resume=True), validate=lambda: next(stream), validate_every=2, patience=3)
    assert (history.best_epoch, history.best_metric) == (expected.best_epoch, expected.best_metric)
    assert again.x == whole.x


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    go(Walk(), run=Run(checkpoint=tmp_path / "c", checkpoint_epochs=5))
    with pytest.raises(StoreError, match=r"of another run .seed was 0, now 1"):
        run_epochs(Walk(), epochs=20, run=Run(checkpoint=tmp_path / "c", resume=True), identity={"seed": 1})


def test_of_many_settings_the_one_that_differs_is_named(tmp_path):
    settings = {f"a setting with a long name {n}": n for n in range(20)}
    options = {"checkpoint": tmp_path / "c", "checkpoint_epochs": 5}
    run_epochs(Walk(), epochs=20, run=Run(**options), identity={"settings": settings | {"dim": 4}})
    with pytest.raises(StoreError, match=r"another run .dim was 4, now 8.;"):
        run_epochs(Walk(), epochs=20, run=Run(**options, resume=True), identity={"settings": settings | {"dim": 8}})
    with pytest.raises(StoreError, match=r"another run .dim was 4, now null.;"):
        run_epochs(Walk(), epochs=20, run=Run(**options, resume=True), identity={"settings": settings})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_divergence_names_epoch_quantity_and_remedy(value):
    with pytest.raises(DivergedError, match=r"epoch 3: the loss is (nan|inf); lower learning_rate"):
        go(Walk(fail_at=3, value=value))


def test_exploding_norms():
    class Exploding(Walk):
        def epoch(self, number):
            return {"loss": 1.0, "item_norm": 10.0 ** (2 * number)}

    with pytest.raises(DivergedError, match="epoch 3: the item_norm is 1e"):
        go(Exploding())


def test_limits():
    history = go(Walk(), run=Run(time_limit_s=0.0))
    assert len(history.records) == 1
    assert "time limit" in history.stopped
    assert len(go(Walk(), run=Run(stop_after=4)).records) == 4


def test_thinned_history_has_the_last_epoch_and_finite_values_only():
    history = History([Record(n, {"loss": 1 / (n + 1), "rate": float("nan")}, seconds=0.1) for n in range(1001)])
    thinned = history.thinned(most=200)
    assert 150 <= len(thinned) <= 200
    assert thinned[-1] == {"epoch": 1000, "loss": 0.000999001}
    assert [r["epoch"] for r in History(history.records[:3]).thinned()] == [0, 1, 2]


def test_log_is_json_lines_and_goes_on_when_resumed(tmp_path):
    log = tmp_path / "sub" / "log.jsonl"
    go(Walk(), epochs=5, run=Run(log=log, checkpoint=tmp_path / "c", checkpoint_epochs=1))
    go(Walk(), epochs=8, run=Run(log=log, checkpoint=tmp_path / "c", resume=True))
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == list(range(8))
    with pytest.raises(ConfigError, match="cannot write the log"):
        go(Walk(), run=Run(log=tmp_path))


def test_the_log_of_a_killed_run_has_every_epoch_once(tmp_path):
    log, options = tmp_path / "log.jsonl", {"checkpoint": tmp_path / "c", "checkpoint_epochs": 3}

    def crash(record):
        if record.epoch == 7:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        go(Walk(), run=Run(log=log, callbacks=(crash,), **options))
    assert log.read_text().count("\n") == 8  # two more than in the checkpoint
    log.write_text(log.read_text() + '{"epoch": 8, "lo')
    go(Walk(), run=Run(log=log, resume=True, **options))
    assert [json.loads(line)["epoch"] for line in log.read_text().splitlines()] == list(range(20))
    whole = tmp_path / "whole.jsonl"
    go(Walk(), run=Run(log=whole))
    lines = [[json.loads(line)["loss"] for line in path.read_text().splitlines()] for path in (log, whole)]
    assert lines[0] == lines[1]


def test_a_log_that_cannot_be_written_to_ends_the_run_in_words():
    with pytest.raises(StoreError, match="cannot write the log /dev/full: No space left"):
        go(Walk(), run=Run(log=Path("/dev/full")))


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, tensors: tensors.update({"now.x": np.zeros(2)}),
        lambda facts, tensors: tensors.update({"now.x": np.zeros(1, np.float32)}),
        lambda facts, tensors: tensors.update({"now.x": np.array([np.nan])}),
        lambda facts, tensors: tensors.update({"now.y": np.zeros(1)}),
        lambda facts, tensors: tensors.pop("now.steps"),
        lambda facts, tensors: tensors.update({"best.x": np.zeros(1)}),
        lambda facts, tensors: facts.update(next_epoch=99),
        lambda facts, tensors: facts.update(next_epoch=-1),
        lambda facts, tensors: facts.update(next_epoch="x"),
        lambda facts, tensors: facts.update(records=None),
        lambda facts, tensors: facts.update(records=[1] * 20),
        lambda facts, tensors: facts.update(best_epoch=99),
        lambda facts, tensors: facts.update(identity=[]),
        lambda facts, tensors: facts.pop("stopped"),
    ],
)
def test_a_checkpoint_that_makes_no_sense_is_refused(tmp_path, change):
    options = Run(checkpoint=tmp_path / "c", checkpoint_epochs=19, resume=True)
    go(Walk(), run=options)
    stored = read_folder(tmp_path / "c", kind="checkpoint")
    facts = {name: value for name, value in stored.manifest.items() if name not in HEAD}
    tensors = dict(stored.tensors)
    change(facts, tensors)
    write_folder(tmp_path / "c", kind="checkpoint", manifest=facts, tensors=tensors)
    with pytest.raises(StoreError, match="is not a valid checkpoint"):
        go(Walk(), run=options)
    go(Walk(), run=Run(checkpoint=tmp_path / "c"))  # starts over


def test_progress_goes_to_standard_error(capsys):
    go(Walk(), run=Run(progress=True), validate=lambda: 0.25)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "P@5 0.2500" in captured.err


KILLED = """
import os, sys
from pathlib import Path
import numpy as np
from purerec.data.interactions import Interactions
from purerec.models.registry import make_model
from purerec.training.run import Run
rng = np.random.default_rng(0)
data = Interactions.from_columns(rng.integers(0, 300, 3000), rng.integers(0, 60, 3000))

def fit(out):
    settings = dict(epochs=200, pretrain_epochs=90, generators="both", batch_size=64)
    run = Run(checkpoint=Path(out + ".c"), checkpoint_epochs=7, resume=True)
    make_model("pure", **settings).fit(data, seed=1, run=run).save(out)

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        fit(line.strip())
        os._exit(0)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""A fit in a new fork for every line of input; prints the process, and then how it ended."""


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed_ends_in_the_same_bits(tmp_path):
    """Before the weight of PURE's history is chosen, for which there are enough people, and after."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", KILLED], env=os.environ, **pipes) as forks:

        def start(out):
            forks.stdin.write(f"{out}\n")
            forks.stdin.flush()
            return int(forks.stdout.readline())

        def ended():
            return int(forks.stdout.readline())

        start(whole)
        assert ended() == 0
        rng = np.random.default_rng()
        kills = 0
        for _ in range(8):
            before, pid = _next_epoch(part), start(part)
            while psutil.pid_exists(pid) and _next_epoch(part) == before:
                time.sleep(0.05)  # until it has got further than the previous one
            time.sleep(rng.uniform(0, 0.3))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            code = ended()
            kills += code == -signal.SIGKILL
            if code == 0:
                break
        start(part)
        assert ended() == 0
    assert kills > 0
    assert (whole / "tensors.safetensors").read_bytes() == (part / "tensors.safetensors").read_bytes()


def _next_epoch(part):
    try:
        return read_manifest(f"{part}.c", kind="checkpoint")["next_epoch"]
    except StoreError:
        return 0
