"""Time of the tile that the selection takes over that of the faster one, at the first two records of lengths at random.

The rules are those of `kernel-gpu/contract/src/selection.rs` at D = 64 and 128, on 132 multiprocessors. Of a pair in both records, the
times of the second count.
"""

import json
import math


def chosen(pair, has_new_rules):
    wide, causal, average = pair["D"] > 64, pair["mask"] == "causal", pair["average"]
    tile = 128 if wide else 256
    least = 132
    if has_new_rules and wide:
        least = 0 if average >= tile else 132
    elif has_new_rules and causal:
        least = 132 * 7 / 4
    is_short = average < (tile if causal else tile * 3 // 4)
    is_few = -(-pair["rows"] // tile) * pair["heads"] < least
    return "small" if is_short or is_few else "large"


def key(pair):
    return pair["D"], pair["mask"], pair["heads"], tuple(pair["lengths"])


if __name__ == "__main__":
    pairs = {key(pair): pair for name in ("h200-random", "h200-random-finder") for pair in json.load(open(f"{name}.json"))}
    for rules in ("old", "new"):
        regrets = [pair["us"][chosen(pair, rules == "new")] / min(pair["us"].values()) for pair in pairs.values()]
        mean = math.exp(sum(map(math.log, regrets)) / len(regrets))
        print(f"{rules} rules: {len(regrets)} pairs, mean {mean:.3f}, worst {max(regrets):.3f}")
