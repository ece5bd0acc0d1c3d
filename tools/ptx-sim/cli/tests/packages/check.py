"""Runs programs of Python packages under `ptx-sim run`, and prints what came of it as a table.

    python check.py PTX-SIM        with the python of an environment that has the packages

What a package needs that is not there is left out, and said.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
# Package, program, argument, environment, exit code, and a kind of what is found.
CASES = [
    ("numba-cuda", "numba_kernels.py", "right", {}, 0, None),
    ("numba-cuda", "numba_kernels.py", "bounds", {}, 1, "out_of_bounds"),
    ("numba-cuda", "numba_kernels.py", "barrier", {}, 1, "race"),
    ("numba-cuda", "numba_kernels.py", "race", {}, 1, "race"),
    ("numba-cuda", "numba_kernels.py", "streams", {}, 1, "stream_race"),
    ("triton", "triton_kernels.py", "right", {}, 0, None),
    ("triton", "triton_kernels.py", "bounds", {}, 1, "out_of_bounds"),
    ("triton", "triton_kernels.py", "race", {}, 1, "race"),
    ("cuda-core", "cuda_core_kernels.py", "right", {}, 0, None),
    ("cuda-core", "cuda_core_kernels.py", "bounds", {}, 1, "out_of_bounds"),
    ("cuda-core", "cuda_core_kernels.py", "barrier", {}, 1, "race"),
    ("cuda-core", "cuda_core_kernels.py", "cubin", {}, 2, "not_simulated"),
    ("tinygrad", "tinygrad_kernels.py", "", {"DEV": "CUDA"}, 0, None),
    ("tinygrad", "tinygrad_kernels.py", "", {"DEV": "CUDA:PTX"}, 0, None),
    ("cupy-cuda13x", "cupy_kernels.py", "", {}, 2, "private_interface"),
]


def run(ptx_sim, program, argument, environment):
    """Exit code, the kinds of the problems that count, how many kernels were launched, and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [ptx_sim, "run", "--no-leaks", "--report", report, "--", sys.executable, FOLDER / program, argument]
        path = os.pathsep.join([str(FOLDER / "../../python"), os.environ.get("PYTHONPATH", "")])
        # What tinygrad has compiled before is not what it compiles here.
        environment = os.environ | environment | {"PYTHONPATH": path, "CACHEDB": str(Path(folder) / "cache.db")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        found = json.loads(report.read_text())
    kinds = sorted({problem["kind"] for problem in found["problems"] if problem["severity"] != "warning"})
    # A runtime that only says which version it is refuses nothing.
    is_alone = done.returncode != 0 and kinds == ["private_interface"]
    kinds = kinds if is_alone else [kind for kind in kinds if kind != "private_interface"]
    return done.returncode, kinds, found["launches"], done.stderr


def main():
    failed = 0
    print("| package | version | program | launches | exit code | found |\n|---|---|---|---:|---:|---|")
    for package, program, argument, environment, code, kind in CASES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            print(f"{package} is not installed: {program} {argument} is left out", file=sys.stderr)
            continue
        found, kinds, launches, errors = run(sys.argv[1], program, argument, environment)
        with_variables = " ".join([f"{name}={value}" for name, value in environment.items()] + [program, argument])
        print(f"| {package} | {version} | `{with_variables.strip()}` | {launches} | {found} | {', '.join(kinds) or 'nothing'} |")
        if found != code or (kind not in kinds if kind else kinds):
            failed += 1
            print(f"{with_variables}: expected {code} and {kind}\n{errors}", file=sys.stderr)
    return min(failed, 1)


sys.exit(main())
