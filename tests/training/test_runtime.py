"""Devices, precision and the seeds of one process; several are in test_processes.py."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bothways.errors import UsageError
from bothways.training.runtime import Runtime, find_device, seeded


def test_one_process_is_one_rank() -> None:
    runtime = Runtime(device="cpu")
    assert (runtime.rank, runtime.num_ranks, runtime.is_main) == (0, 1, True)
    assert runtime.sum([1.5, 2.0]) == [1.5, 2.0]
    assert runtime.gather(["a", "b"]) == ["a", "b"]
    layer = nn.Linear(2, 2)
    assert runtime.wrap(layer) is layer
    runtime.wait()


@pytest.mark.parametrize("name", ["gpu", "cpu:x", "cuda:99", "tpu"])
def test_a_device_that_is_not_there_is_named_with_those_that_are(name: str) -> None:
    with pytest.raises(UsageError, match=f"no device '{name}' here; there is: .*cpu"):
        find_device(name)


def test_threads_are_set_and_checked() -> None:
    before = torch.get_num_threads()
    try:
        Runtime(device="cpu", threads=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    with pytest.raises(UsageError, match="threads is 0"):
        Runtime(device="cpu", threads=0)


def test_bfloat16_computes_in_it_and_keeps_weights_in_float32() -> None:
    runtime = Runtime(device="cpu", precision="bfloat16")
    layer = nn.Linear(4, 4)
    with runtime.forward():
        result = layer(torch.ones(1, 4))
    assert result.dtype == torch.bfloat16
    assert layer.weight.dtype == torch.float32
    assert Runtime(device="cpu").dtype == torch.float32


def test_float16_is_refused_for_training() -> None:
    """microsoft/DeBERTa#77: training in fp16 ended in NaN without a word."""
    with pytest.raises(UsageError, match="float16 does not train here.*bfloat16"):
        Runtime(device="cpu", precision="float16")


def test_seeds_hold_inside_and_leave_no_trace() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with seeded(5, device=torch.device("cpu")):
        torch.rand(9)
    assert torch.equal(torch.rand(2), expected)
