"""Standard streams that are closed, full, or unread; Ctrl-C at any moment."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from conftest import PUREREC, purerec

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX redirections")


@pytest.fixture(scope="module")
def clicks(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "clicks.csv"
    path.write_text("user,item\n" + "".join(f"u{n % 40},i{n * 7 % 60}\n" for n in range(2000)))
    return path


@pytest.fixture(scope="module")
def folder(clicks, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("models") / "m"
    purerec("fit", clicks, "--model", "itempop", "--out", out, check=0)
    return out


def sh(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line with redirections: `purerec` stands for it."""
    script = command.replace("purerec", shlex.join([*PUREREC, *map(str, arguments)]))
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)


USERS = [word for n in range(40) for word in ("--user", f"u{n}")]
ANSWERS = [
    pytest.param(lambda folder, clicks: ["models"], id="a short table"),
    pytest.param(lambda folder, clicks: ["--help"], id="help"),
    pytest.param(lambda folder, clicks: ["recommend", folder, *USERS, "--json", "-"], id="more than a buffer"),
    pytest.param(lambda folder, clicks: ["evaluate", clicks, "--model", "itempop"], id="after some work"),
]


def assert_refused(done: subprocess.CompletedProcess[str], why: str) -> None:
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: standard output cannot be written: " + why)
    assert not any(word in done.stderr for word in ("Traceback", "internal error", "Exception ignored"))


@pytest.mark.parametrize("arguments", ANSWERS)
def test_output_that_is_full(arguments, folder, clicks):
    with open("/dev/full", "wb") as full:
        assert_refused(purerec(*arguments(folder, clicks), stdout=full.fileno()), "No space left on device")


@pytest.mark.parametrize("arguments", ANSWERS)
def test_output_that_is_closed(arguments, folder, clicks):
    """Closed from the start, so that the interpreter has none."""
    assert_refused(sh("purerec >&-", *arguments(folder, clicks)), "it is closed")


@pytest.mark.parametrize("arguments", ANSWERS)
def test_a_reader_that_goes_away(arguments, folder, clicks):
    """Like `cat` and `ls`: nothing on standard error, and ended by SIGPIPE, which a shell shows as 141."""
    reading, writing = os.pipe()
    os.close(reading)
    done = purerec(*arguments(folder, clicks), stdout=writing)
    os.close(writing)
    assert done.returncode == -signal.SIGPIPE
    assert not any(word in done.stderr for word in ("Traceback", "error", "Exception ignored"))


def test_a_reader_in_a_shell_that_goes_away(folder):
    done = sh("purerec | true; echo ${PIPESTATUS[0]}", "recommend", folder, *USERS, "--json", "-")
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize("to", ["2> /dev/full", "2>&-", "2> >(true)"])
def test_standard_error_that_cannot_be_written(to, folder, clicks):
    """Messages are lost, but the command does its work, and the exit code is the same."""
    assert sh(f"purerec {to}", "recommend", folder / "none", "--user", "u1").returncode == 2
    done = sh(f"purerec {to}", "fit", clicks, "--model", "itempop", "--out", folder.with_name("again"))
    assert done.returncode == 0
    assert "saved in" in done.stdout


def test_nothing_at_all_is_open(folder, clicks):
    """Descriptors 0 to 2 must not be reused for files of the model."""
    out = folder.with_name("unseen")
    assert sh("purerec <&- >&- 2>&-", "fit", clicks, "--model", "itempop", "--out", out).returncode == 2
    assert {file.name for file in out.iterdir()} == {file.name for file in folder.iterdir()}
    purerec("recommend", out, "--user", "u1", check=0)


PRESSED = """
import os, signal, sys
class Press:
    def find_spec(self, name, *_):
        if name == "{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
from purerec.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "rich.console", "purerec.cli.fit", "polars", "purerec.training.loop"])
def test_ctrl_c_while_modules_are_imported(module, clicks, tmp_path):
    command = ["fit", str(clicks), "--model", "pure", "--set", "epochs=100000", "--out", str(tmp_path / "m")]
    code = PRESSED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"


def processor_seconds(process: subprocess.Popen[str]) -> float:
    """CPU time of a process and of those that it started."""
    first = psutil.Process(process.pid)
    return sum(sum(one.cpu_times()[:2]) for one in (first, *first.children(recursive=True)))


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "--models", "pure,itempop", "--set", "epochs=100000"],
        ["evaluate", "--model", "pure", "--set", "epochs=100000"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_ctrl_c_amid_the_work(arguments, clicks, tmp_path):
    command = [*PUREREC, arguments[0], str(clicks), *arguments[1:], "--verbose"]
    said = tmp_path / "said.txt"
    with said.open("w") as file:  # an unread pipe would soon be full, and the command would wait
        process = subprocess.Popen(command, cwd=tmp_path, stderr=file, stdout=subprocess.DEVNULL, text=True)
    while not said.read_text().startswith("read "):
        time.sleep(0.05)
        assert process.poll() is None
    enough = processor_seconds(process) + 2
    while processor_seconds(process) < enough:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    stderr = said.read_text()
    # If the signal comes during an `exec`, as for a dataclass, Python kills itself; a shell shows 130 for both.
    assert process.returncode in (130, -signal.SIGINT), stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
