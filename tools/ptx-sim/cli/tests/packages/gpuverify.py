"""Runs the CUDA kernels of GPUVerify's tests under ptx-sim, one JSON object a line: what the first line of a kernel expects, and
what was found. Inputs are those that `ptx-sim init` guesses, with larger buffers: a kernel with preconditions may get wrong ones."""

import argparse
import json
import pathlib
import re
import subprocess
import tempfile

ANNOTATIONS = (
    "assume requires ensures invariant global_invariant function_wide_invariant candidate_invariant barrier_invariant "
    "non_temporal_loads_begin non_temporal_loads_end array_snapshot assert"
).split()
SECONDS = 60


def run(*command):
    try:
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None


def header(removed, file):
    """Removes annotations; an assertion that is not removed is one of CUDA."""
    lines = ["#include <cassert>", *(f"#define __{name}(...) ((void)0)" for name in ANNOTATIONS if name in removed)]
    file.write_text("\n".join([*lines, "" if "assert" in removed else "#define __assert(x) assert(x)", ""]))
    return file


def compiled(nvcc, kernel, folder):
    for removed in (ANNOTATIONS[:-1], ANNOTATIONS):
        annotations = header(removed, folder / "annotations.h")
        ptx = folder / "kernel.ptx"
        made = run(nvcc, "-ptx", "-arch=sm_80", "-lineinfo", "-w", "-include", annotations, kernel, "-o", ptx)
        if made and made.returncode == 0:
            return ptx
    return None


def found(ptx_sim, ptx, text, folder):
    """The classes of what is found, and why the kernel does not run."""
    launch = folder / "launch.toml"
    made = run(ptx_sim, "init", ptx, "--force", "--output", launch)
    if made is None or made.returncode:
        return None, "not one entry"
    launch.write_text(re.sub(r'(?<=[a-z0-9])\[1000\]', "[2097152]", launch.read_text()))
    dimensions = []
    for option, dimension in (("block", "blockDim"), ("grid", "gridDim")):
        given = re.search(rf"--{dimension}=\[?([0-9,]+)", text)
        dimensions += [f"--{option}", given[1] if given else "1"]
    done = run(ptx_sim, ptx, "--launch", launch, *dimensions, "--json")
    if done is None:
        return None, f"takes more than {SECONDS} seconds"
    if done.returncode == 2:
        return None, done.stderr.strip().splitlines()[0]
    return sorted({finding["class"] for finding in json.loads(done.stdout)["findings"]}), None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tests", type=pathlib.Path, help="the folder testsuite/CUDA of GPUVerify")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--ptx-sim", default="ptx-sim")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for kernel in sorted(options.tests.rglob("*.cu")):
            text = kernel.read_text(errors="replace")
            ptx = compiled(options.nvcc, kernel, pathlib.Path(name))
            classes, why = found(options.ptx_sim, ptx, text, pathlib.Path(name)) if ptx else (None, "does not compile")
            row = {"kernel": str(kernel.parent.relative_to(options.tests)), "expected": text.splitlines()[0][2:].lower()}
            print(json.dumps({**row, "found": classes, "why": why}), flush=True)


main()
