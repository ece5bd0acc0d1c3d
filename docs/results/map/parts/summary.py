"""Summarises records of `fa512 map run --variants all --contender torch:flash`: FlashAttention-2's time over ours.

    summary.py RECORD...

"chosen" is the kernel that was launched, "fastest" the fastest that was timed, "whole" the fastest whose items were not in parts. A kernel
that ran in parts was not timed whole as well.
"""

import json
import math
import pathlib
import statistics
import sys


def median(result):
    return statistics.median(result["samples_us"])


def describe(ratios):
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    return f"{mean:.3f}, lowest {min(ratios):.3f}, {sum(ratio < 1 for ratio in ratios)} below 1"


for path in map(pathlib.Path, sys.argv[1:]):
    ratios = {"chosen": [], "fastest": [], "whole": []}
    in_parts = 0
    for line in path.read_text().splitlines()[1:]:
        results = [result for result in json.loads(line)["results"] if result["result"] == "measured"]
        peer = next(median(result) for result in results if result["contender"] == "torch:flash")
        chosen = next(result for result in results if result["contender"] == "fa512")
        ours = [result for result in results if result["kernel"]]
        whole = [result for result in ours if result.get("parts", 1) == 1]
        in_parts += chosen.get("parts", 1) > 1
        ratios["chosen"].append(peer / median(chosen))
        ratios["fastest"].append(peer / min(map(median, ours)))
        ratios["whole"].append(peer / min(map(median, whole)))
    print(f"{path.stem}: {len(ratios['chosen'])} points, {in_parts} in parts")
    for name, values in ratios.items():
        print(f"    {name:8}{describe(values)}")
