"""Model of how work items of packed sequences are dealt to 132 blocks with tiles of 256 rows: the busiest block's cost over the mean.

An item costs its tiles of 64 keys and one more. `slots`: items by slot, empty slots too, every other round backwards. `sequences`: the
same without empty slots. `longest`: the costliest first. All are dealt round by round, as the kernels do.
"""

from random import Random

from cases import CASES

BLOCKS, ROWS, KEYS = 132, 256, 64


def items(heads, lengths, causal, empty_slots):
    """Costs in the order of the sequences, heads fastest; 0 for an empty slot."""
    costs, row = [], 0
    for sequence, length in enumerate(lengths):
        tiles, keys = -(-length // ROWS), -(-length // KEYS)
        for tile in range(tiles):
            attended = min(keys, (tile + 1) * ROWS // KEYS) if causal else keys
            costs += [attended + 1] * heads
        slots = (row + length) // ROWS + 1 - row // ROWS
        if empty_slots:
            costs += [0] * (heads * (slots - tiles))
        row += length
    return costs


def busiest(costs):
    loads = [0] * BLOCKS
    for index, cost in enumerate(costs):
        turn, block = divmod(index, BLOCKS)
        loads[block if turn % 2 == 0 else BLOCKS - 1 - block] += cost
    return max(loads) * BLOCKS / sum(loads)


if __name__ == "__main__":
    draw = Random(7)
    work = {**CASES, "8u1024-4096": (8, [draw.randint(1024, 4096) for _ in range(8)])}
    print(f"{'lengths':14} {'mask':7} slots sequences longest")
    for name, (heads, lengths) in work.items():
        for causal in (False, True):
            slots, plain = (items(heads, lengths, causal, empty) for empty in (True, False))
            figures = busiest(slots), busiest(plain), busiest(sorted(plain, reverse=True))
            print(f"{name:14} {'causal' if causal else 'full':7} {figures[0]:5.2f} {figures[1]:9.2f} {figures[2]:7.2f}")
