"""Where a run computes: device, precision, ranks.

accelerate starts the process group of a launch (`torchrun`, `accelerate launch`) and wraps the
objective; its data loaders, `accumulate`, backward scaling and `gather_for_metrics` are not used,
because the loop counts targets itself. One process works the same way with one rank.
"""

from __future__ import annotations

import atexit
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Literal, TypeVar

import torch
from torch import nn

from bothways.errors import UsageError
from bothways.training.estimate import matrix_peak

Precision = Literal["auto", "float32", "bfloat16", "float16"]
Item = TypeVar("Item")


class Runtime:
    """Device, precision and ranks of a run.

    Args:
        device: `cpu`, `cuda`, `cuda:1`, `mps`; None for the best there is. With several ranks
            the launch decides which one of its kind.
        precision: of the forward pass; weights and moments stay float32. auto is bfloat16 on a
            GPU that has it, else float32.
        threads: of the CPU; None leaves torch's number.
        sharded: whether several processes spread what learns over each other (`sharding.py`)
            instead of holding it each.

    Attributes:
        device: where batches and weights go.
        dtype: of the matrix products.
        rank, num_ranks: this process among those of the launch.
        sharded: whether that is so here; never in a single process.

    Raises:
        UsageError: for a device that is not here, or float16, whose gradients underflow.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        precision: Precision = "auto",
        threads: int | None = None,
        sharded: bool = False,
    ) -> None:
        if threads is not None:
            if threads < 1:
                raise UsageError(f"threads is {threads}; expected at least 1")
            torch.set_num_threads(threads)
        if precision == "float16":
            raise UsageError(
                "float16 does not train here: small gradients become zero in it; use bfloat16, "
                "which has the range of float32"
            )
        found = find_device(device)
        self._accelerator = _accelerator(found) if _launched() else None
        if self._accelerator is not None:
            self.device: torch.device = self._accelerator.device
            self.rank = int(self._accelerator.process_index)
            self.num_ranks = int(self._accelerator.num_processes)
        else:
            self.device = found
            self.rank, self.num_ranks = 0, 1
        self.sharded = sharded and self.num_ranks > 1
        if precision == "auto":
            fast = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
            precision = "bfloat16" if fast else "float32"
        self.dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._hosts: Any = None

    @property
    def is_main(self) -> bool:
        """Whether this rank writes files and reports."""
        return self.rank == 0

    @cached_property
    def matrix_peak(self) -> float:
        """FLOP/s of this machine's matrix products, all ranks together; measured once."""
        return matrix_peak(self.device, self.dtype) * self.num_ranks

    def wrap(self, objective: nn.Module) -> nn.Module:
        """The objective on its device, ready for the loop; one that is spread already as it is."""
        if self.sharded:
            return objective
        objective.to(self.device)
        if self._accelerator is None:
            return objective
        wrapped: nn.Module = self._accelerator.prepare_model(objective)
        return wrapped

    def forward(self) -> AbstractContextManager[Any]:
        """Surrounds a forward pass: the precision."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def keep_local(self, module: nn.Module) -> AbstractContextManager[Any]:
        """Surrounds a backward pass whose gradients the ranks do not exchange yet."""
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return module.no_sync()
        return nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value summed over the ranks; does not wait for an accelerator."""
        if self.num_ranks == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        torch.distributed.all_reduce(total, group=self._host_group())
        return list(total.tolist())

    def gather(self, items: list[Item]) -> list[Item]:
        """The items of all ranks, rank by rank, on every rank; none is repeated or left out."""
        if self.num_ranks == 1:
            return items
        lists: list[list[Item]] = [[] for _ in range(self.num_ranks)]
        torch.distributed.all_gather_object(lists, items, group=self._host_group())
        return [item for part in lists for item in part]

    def _host_group(self) -> Any:
        """The ranks connected from memory to memory, past their accelerators; made once."""
        if self._hosts is None:
            self._hosts = torch.distributed.new_group(backend="gloo")
        return self._hosts

    def wait(self) -> None:
        """Returns when every rank has come this far."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()


def find_device(name: str | None) -> torch.device:
    """The device of that name, or the best there is.

    Raises:
        UsageError: when there is no such device here.
    """
    here = [
        kind
        for kind, there in (
            ("cuda", torch.cuda.is_available()),
            ("mps", torch.backends.mps.is_available()),
            ("cpu", True),
        )
        if there
    ]
    if name is None:
        return torch.device(here[0])
    kind, _, index = name.partition(":")
    known = kind in here and (not index or index.isdigit())
    if known and kind == "cuda" and index:
        known = int(index) < torch.cuda.device_count()
    if not known:
        raise UsageError(f"there is no device {name!r} here; there is: {', '.join(here)}")
    return torch.device(name)


def _launched() -> bool:
    """Whether a launcher has started several processes of this program."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def _accelerator(device: torch.device) -> Any:
    from accelerate import Accelerator, DistributedDataParallelKwargs

    # A pooler that the head does not read gets no gradient; data parallel has to look for it.
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    # Unless it is told, accelerate takes ranks without an accelerator for programs of their own.
    on_cpu = device.type == "cpu"
    accelerator = Accelerator(cpu=on_cpu, mixed_precision="no", kwargs_handlers=[unused])
    # A process that ends while its group is open can abort, and the launcher then ends the others.
    atexit.register(accelerator.end_training)
    return accelerator


@contextmanager
def seeded(*numbers: int, device: torch.device) -> Iterator[None]:
    """torch's global generators seeded from some numbers inside, and as they were afterwards.

    Args:
        numbers: anything that names what happens inside: seed, step, micro-step, rank.
        device: the accelerator's generator is seeded too.
    """
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices, device_type="cuda"):
        torch.manual_seed(int.from_bytes(digest, "little"))
        yield
