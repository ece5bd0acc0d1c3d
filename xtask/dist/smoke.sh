#!/bin/sh
# Says whether what is in this folder works on this machine:
#
#     ./smoke.sh
#
# On a GPU where the driver answers, else in the simulator. Exit code: 0 everything passed, 1 something failed.
cd "$(dirname "$0")" || exit 1
failed=0

step() {
    printf '\n== %s\n' "$*"
    "$@" || { failed=1; printf '== FAILED: %s\n' "$*"; }
}

if reason=$(./fa512 run --device gpu --batch 1 --heads 1 2>&1 >/dev/null); then
    device=gpu
    tests=kernels::
else
    device=sim
    tests='kernels::sequence_65 kernels::sequence_512 kernels::inputs_that_are_not_finite'
    printf 'No GPU is used, everything runs in the simulator:\n%s\n' "$reason"
fi

for ptx in ptx ptx-cuda ptx-rust-cuda; do
    [ -d "$ptx" ] || continue
    step ./fa512 run --device "$device" --ptx "$ptx"
    step ./fa512 run --device "$device" --ptx "$ptx" --mask causal --seq 700 --layout bshd
    # The list of tests is meant to be split.
    step env FA512_TEST_DEVICE="$device" FA512_PTX_DIR="$PWD/$ptx" tests/kernels --quiet $tests
    step ./fa512 sanitize --ptx "$ptx" --seq 1,65,512
done
step ./fa512 fuzz --device "$device" --cases 50
step ./ptx-sim ptx/sm_80.ptx --list
[ "$device" = sim ] || step ./fa512 bench --shapes 32x8x512 --contender all --samples 30

printf '\n== PyTorch, to compare with\n'
if python=$(command -v python3 || command -v python); then
    printf '{"command": "hello"}\n' | "$python" baselines/torch/contender.py 2>/dev/null
else
    printf 'there is no Python\n'
fi

[ "$failed" = 0 ] && result=PASS || result=FAIL
printf '\nsmoke: %s (%s)\n' "$result" "$device"
exit "$failed"
