"""Where torch computes."""

import pytest

from conftest import need

need("torch")

import torch

from purerec.engines.pure.torch.device import one_thread, own_device


def test_without_a_gpu_it_is_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert own_device() == torch.device("cpu")


@pytest.mark.parametrize(("rank", "gpu"), [(None, 0), ("0", 0), ("1", 1), ("2", 0)])
def test_processes_on_a_machine_take_its_gpus_in_turn(monkeypatch, rank, gpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    assert own_device() == torch.device("cuda", gpu)


def test_the_number_of_threads_is_set_back():
    before = torch.get_num_threads()

    @one_thread()
    def fails():
        assert torch.get_num_threads() == 1
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    assert torch.get_num_threads() == before
