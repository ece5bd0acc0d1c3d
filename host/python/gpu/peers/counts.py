"""Shared by the scripts that run other projects' tests: processes that run them, and a record of what came of each."""

import collections
import json
import multiprocessing
import pathlib
import queue
import re
import time

NO_GRADIENT = re.compile("gradient (is )?required")
"""What fa512 refuses for want of a backward."""


def reason_of(error):
    """The message, with N for numbers, so that reasons can be counted."""
    return re.sub(r"\d+", "N", f"{type(error).__name__}: {error}".replace("\n", " "))[:160]


def with_gradient_of_nan(out, inputs):
    """`out` as it is. Its gradient is NaN, which no test accepts."""
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, out, *tensors):
            ctx.save_for_backward(*tensors)
            return out.clone()

        @staticmethod
        def backward(ctx, grad):
            return None, *(torch.full_like(tensor, torch.nan) for tensor in ctx.saved_tensors)

    return Function.apply(out, *(each for each in inputs if isinstance(each, torch.Tensor) and each.requires_grad))


def take_gpu(number):
    """Has process `number` compute on its GPU, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.set_device(number % torch.cuda.device_count())


class Counts:
    """What came of tests."""

    def __init__(self):
        self.tests = collections.defaultdict(collections.Counter)
        self.refused = collections.Counter()
        self.failures = []

    def add(self, name, what, found, why):
        """`what` tells which test of this name."""
        self.tests[name][found] += 1
        if found == "refused":
            self.refused[why] += 1
        elif found in ("failed", "error"):
            self.failures.append({"test": name, "what": what, "outcome": found, "why": why})

    def collect(self, processes, results, end):
        """Until all processes have ended. Ends those that are in a test at the time `end`, and returns how many."""
        left = len(processes)
        while left:
            try:
                result = results.get(timeout=5)
            except queue.Empty:
                if time.monotonic() > end:
                    for process in processes:
                        process.kill()
                    return left
                if not any(process.is_alive() for process in processes):
                    self.failures.append({"test": None, "what": None, "outcome": "error", "why": f"{left} processes ended early"})
                    return 0
                continue
            if result is None:
                left -= 1
            else:
                self.add(*result)
        return 0


_IN_A_TEST = 30
"""For how many seconds a test may go on after the time is over."""


def run(work, options, name):
    """Calls work(options, number, results) in each of `options.processes` processes, where it puts what came of each test, and None at
    last. Writes the record, prints it in short and returns the script's exit code: 0 if tests passed and none failed."""
    import torch

    import fa512

    begun, context, counts = time.monotonic(), multiprocessing.get_context("spawn"), Counts()
    results = context.Queue()
    processes = [context.Process(target=work, args=(options, number, results)) for number in range(options.processes)]
    for process in processes:
        process.start()
    killed = counts.collect(processes, results, begun + options.seconds + _IN_A_TEST)
    for process in processes:
        process.join(10)
    total = sum(counts.tests.values(), collections.Counter())
    not_yet = sum(count for why, count in counts.refused.items() if NO_GRADIENT.search(why))
    record = {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "fa512": fa512.__version__,
        "options": vars(options),
        "seconds": round(time.monotonic() - begun, 1),
        "killed_in_a_test": killed,
        "total": total,
        "refused_for_want_of_a_backward": not_yet,
        "tests": counts.tests,
        "refused": dict(counts.refused.most_common()),
        "failures": counts.failures[:200],
    }
    path = pathlib.Path(options.out) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, default=str))
    for test, found in sorted(counts.tests.items()):
        print(f"{test:64} {dict(found)}")
    for why, count in counts.refused.most_common(20):
        print(f"{count:8} refused: {why}")
    for failure in counts.failures[:10]:
        print(f"{failure['test']} {failure['what']}\n{failure['why']}")
    refused = total["refused"] - not_yet
    print(f"\n{path}\n{total['passed']} passed, {len(counts.failures)} failed, {refused} refused, {not_yet} refused for want of a backward")
    return 1 if counts.failures or not total["passed"] else 0
