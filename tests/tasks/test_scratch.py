"""Memory that tasks reuse."""

import os
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
if sys.argv[1] == "ours":
    from dask_rac.tasks import scratch
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
first, kept = np.ones(2**18), np.ones(2**16)
del first
before = faults()
for _ in range(100):
    np.ones(2**18)
print(faults() - before)
"""
PAGES = 100 * 2**18 * 8 // 4096


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone has these settings")
def test_arrays_take_memory_that_was_freed_though_dask_sets_a_trim_threshold() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    env["MALLOC_TRIM_THRESHOLD_"] = "65536"

    def faults(whose: str) -> int:
        done = subprocess.run([sys.executable, "-c", FAULTS, whose], env=env, check=True, capture_output=True)
        return int(done.stdout)

    assert faults("ours") < PAGES / 10 < PAGES / 2 < faults("nobody")
