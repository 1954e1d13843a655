"""Two 'hosts', network namespaces with their own addresses and a slow link that is cut in the middle."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress

import pytest

from cli.test_workers import alone, assert_same, tensors, wait_until
from conftest import need

pytestmark = pytest.mark.slow
EPOCHS, TIMEOUT_S, PORT = 300, 10, 29531
SLOW = "tbf rate 2mbit burst 16kbit latency 400ms"


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True, text=True)


@pytest.fixture
def hosts():
    """Two names; the link between them carries 2 Mbit/s."""
    names = [f"pr{os.getpid()}{side}" for side in "ab"]
    if shutil.which("ip") is None or shutil.which("tc") is None:
        pytest.skip("iproute2 is not installed")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", name, "up")
            ip(*f"netns exec {name} tc qdisc add dev {name} root {SLOW}".split())
    except subprocess.CalledProcessError as error:
        _remove(names)
        pytest.skip(f"no network namespaces here ({error.stderr.strip()})")
    yield names
    _remove(names)


def _remove(names):
    for name in names:
        with suppress(subprocess.CalledProcessError):
            ip("netns", "del", name)


def start(hosts, port, *words):
    """Start torchrun on both."""
    running = []
    for rank, name in enumerate(hosts):
        own = {"GLOO_SOCKET_IFNAME": name, "PUREREC_WORKER_TIMEOUT_S": str(TIMEOUT_S), "OMP_NUM_THREADS": "1"}
        meeting = ["--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 1, "--master-addr", "10.77.0.1"]
        torchrun = [sys.executable, "-m", "torch.distributed.run", *meeting, "--master-port", port]
        command = [
            str(word) for word in ("ip", "netns", "exec", name, *torchrun, "-m", "--", "purerec", "fit", *words)
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(subprocess.Popen(command, env=os.environ | own, text=True, **pipes))
    return running


def test_a_cut_link_is_told_in_time_and_the_fit_goes_on_when_it_is_back(clicks, tmp_path, hosts):
    need("torch")
    out = tmp_path / "model"
    fit = [clicks, "--model", "pugmf", "--set", f"epochs={EPOCHS}", "--set", "dim=4", "--out", out]
    running = start(hosts, PORT, *fit)
    wait_until((tmp_path / "model.checkpoint").exists, running[0])
    ip("-n", hosts[1], "link", "set", hosts[1], "down")
    said = [process.communicate(timeout=TIMEOUT_S + 120)[1] for process in running]
    assert all(process.returncode for process in running)
    assert "error: another worker was lost" in said[0]
    assert not out.exists()

    ip("-n", hosts[1], "link", "set", hosts[1], "up")
    running = start(hosts, PORT + 1, *fit, "--resume")
    ended = [(process.communicate(timeout=400), process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    assert_same(tensors(out), alone(clicks, tmp_path / "alone", "pugmf", epochs=EPOCHS, dim=4))
