"""Prints random shapes with other numbers of keys or shared heads, for `fa512 map run --shapes`.

    sizes.py KIND COUNT COLUMNS SEED

KIND is `keys` (1 to 2,048 queries, 16 to 16,384 keys, heads of their own), `queries` (1 to 16 queries, 64 to 16,384 keys, up to
eight heads that share one of K and V), `shared` (as many keys as queries, shared heads), or `fit` (`keys` of short calls).
"""

import math
import random
import sys

kind, count, columns, seed = sys.argv[1], *map(int, sys.argv[2:])
draw = random.Random(seed)


def log_uniform(low, high):
    return int(math.exp(draw.uniform(math.log(low), math.log(high + 1))))


def heads_of_entries(heads):
    of_an_entry = max(number for number in range(1, 33) if heads % number == 0)
    return heads // of_an_entry, of_an_entry


def shape():
    if kind == "keys":
        queries, keys = log_uniform(1, 2048), log_uniform(16, 16384)
        batch, heads = heads_of_entries(log_uniform(1, 2048))
        return batch, heads, heads, queries, keys
    if kind == "fit":
        queries, keys = log_uniform(1, 1024), log_uniform(32, 16384)
        batch, heads = heads_of_entries(log_uniform(1, 1024))
        return batch, heads, heads, queries, keys
    if kind == "queries":
        group, kv_heads = draw.choice([1, 1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 12, 16])
        batch, queries, keys = log_uniform(1, 128), log_uniform(1, 16), log_uniform(64, 16384)
        return batch, group * kv_heads, kv_heads, queries, keys
    group, kv_heads = draw.choice([2, 3, 4, 6, 7, 8]), draw.choice([1, 2, 4, 8])
    batch, rows = log_uniform(1, 64), log_uniform(16, 4096)
    return batch, group * kv_heads, kv_heads, rows, rows


def is_wanted(batch, heads, kv_heads, queries, keys):
    mebibytes = 4 * batch * columns * (heads * queries + kv_heads * keys) / 2**20
    microseconds = 4 * batch * heads * queries * keys * columns / 600e6
    if kind != "fit":
        return mebibytes <= 500 and microseconds <= 700
    is_tiny = microseconds < 1 and mebibytes < 4
    return mebibytes <= 450 and microseconds <= 250 and 2 * keys >= queries and not (is_tiny and draw.random() < 0.6)


def text(batch, heads, kv_heads, queries, keys):
    of_keys = "" if kv_heads == heads else f"/{kv_heads}"
    other_keys = "" if keys == queries else f"/{keys}"
    other_columns = "" if columns == 64 else f"x{columns}"
    return f"{batch}x{heads}{of_keys}x{queries}{other_keys}{other_columns}"


shapes = []
while len(shapes) < count:
    one = shape()
    if is_wanted(*one):
        shapes.append(text(*one))
print(",".join(shapes))
