#!/usr/bin/env python3
"""Compiles every CUDA file of a folder to PTX and counts the entries that ptx-sim executes.

    accepted.py --nvcc nvcc --ptx-sim target/release/ptx-sim [-I FOLDER ...] FOLDER -- -O3 -lineinfo

What stands behind -- goes to nvcc. Files that nvcc cannot compile are listed and not counted.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile

# Some files need instructions of one architecture alone.
ARCHITECTURES = ("sm_90", "sm_90a")


def compile_to_ptx(nvcc, source, includes, flags, folder):
    """The PTX of a file, or None and what nvcc says last."""
    ptx = pathlib.Path(folder) / (source.as_posix().replace("/", "_") + ".ptx")
    for architecture in ARCHITECTURES:
        paths = [f"-I{path}" for path in [source.parent, *includes]]
        command = [nvcc, "-ptx", "-std=c++17", f"-arch={architecture}", *flags, *paths, source, "-o", ptx]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return ptx, ""
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return None, lines[0] if lines else done.stderr.strip()


def entries_of(ptx_sim, ptx):
    """Every entry with the reason why it is not executed, or None."""
    done = subprocess.run([ptx_sim, ptx, "--list", "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{ptx}: {done.stderr}")
    return [(entry["entry"], entry["refusal"]) for entry in json.loads(done.stdout)["entries"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--ptx-sim", default="ptx-sim")
    parser.add_argument("-I", dest="includes", action="append", default=[])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("flags", nargs="*", default=["-O3", "-lineinfo"], help="behind --, for nvcc")
    options = parser.parse_args()
    sources = sorted(options.folder.rglob("*.cu"))
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(options.nvcc, source, options.includes, options.flags, folder) for source in sources]
        compiled, entries = 0, []
        for source, (ptx, error) in zip(sources, pool.map(lambda job: compile_to_ptx(*job), jobs)):
            if ptx is None:
                print(f"{source}: not compiled: {error}")
                continue
            compiled += 1
            entries += entries_of(options.ptx_sim, ptx)
    for name, refusal in entries:
        if refusal:
            print(f"{name}: {refusal}")
    executed = sum(refusal is None for _, refusal in entries)
    print(f"{compiled} of {len(sources)} files compiled; {executed} of {len(entries)} entries are executed")


if __name__ == "__main__":
    main()
