"""Every model class of transformers with the attention `fa512_flash`, against the same weights by eager attention in float32.

    python every_model.py --out FILE [--only NAME] [--seconds N] [--seed S] [--sample N] [--no-compile]

The classes are found in transformers' mappings and files and made tiny with random weights (tiny_models.py). They run on the CPU with the
operators' arithmetic of cpu.py, in float32 where nothing else is said. Each class meets (model_cases.py)

* masks: none, right and left padding, gaps, an empty row, one token, padded batches of one; each in the states eval, inference_mode, calls
  as on a GPU, static buffers rewritten, attention switched afterwards, float16, autocast, gradients, compile;
* cross-attention of as many, fewer and more keys; texts behind cached keys; position_ids with masks and in batches;
* packed sequences: cu_seq_lens, position_ids alone, with a cache and without;
* sentence-transformers, which saves and loads it as an embedder.

Each case is

* computed: the operators of fa512 were called, and the result is eager's;
* handed: they were not called, and the result is eager's;
* refused: an error of fa512 that names what and why;
* WRONG: another result; ERROR: another error. There must be none of these.

What eager itself cannot run, or is NaN, is not judged. A case in which SDPA differs from eager may equal either.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import importlib.metadata
import json
import logging
import os
import pathlib
import random
import re
import select
import subprocess
import sys
import time
import traceback
import warnings

import torch

from tiny_models import BAD, classes

SECONDS_A_CLASS = 240


# Workers: one crash or hang is one class.


def prepare(wrong=None):
    """In a worker: the operators on the CPU, our attention and the control. With `wrong`, ours is the control in this mode."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    import cpu
    import fa512.transformers  # noqa: F401 -- registers the attention
    from model_cases import CONTROL, NAME, control, wrongly

    torch.set_num_threads(1)
    cpu.install()
    cpu.ask_no_gpu(lambda stop: None)
    AttentionInterface.register(CONTROL, control)
    AttentionMaskInterface.register(CONTROL, sdpa_mask)
    if wrong is not None:
        AttentionInterface.register(NAME, functools.partial(wrongly, wrong))
        AttentionMaskInterface.register(NAME, sdpa_mask)
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.CRITICAL)
    logging.getLogger("fa512").propagate = False
    torch._logging.set_logs(dynamo=logging.CRITICAL)


def work(options):
    """Reads names from its input, and writes records to its output, a line each. What else is written goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    prepare(options.wrong)
    from model_cases import first_line, judge

    for line in sys.stdin:
        name = line.strip()
        try:
            record = judge(name, not options.no_compile)
        except ImportError as error:
            record = {"class": name, "reason": f"{type(error).__name__}: {first_line(error)}"}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            record = accident(name, f"{type(error).__name__}: {first_line(error)} ({where.name}:{where.lineno})")
        print(json.dumps(record), file=out, flush=True)


def accident(name, words):
    """The record of a class that ended the process, or this test."""
    return {"class": name, "cases": [["everything", "", "ERROR", words]], "noticed": {}}


class Worker:
    """A process that judges one class after the other."""

    def __init__(self, options):
        command = [sys.executable, __file__, "--worker", *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.name, self.began = None, 0.0

    def give(self, name):
        self.name, self.began = name, time.monotonic()
        # A process that died is found later.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()

    def stop(self):
        self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def records(names, options=(), seconds=None, count=2, limit=SECONDS_A_CLASS):
    """The record of each class, as they come; at most for so many seconds. `options` are those of the command."""
    began, waiting, workers = time.monotonic(), collections.deque(names), []
    try:
        for _ in range(min(count, len(waiting))):
            worker = Worker(options)
            worker.give(waiting.popleft())
            # Importing takes a while, too.
            worker.began += 60
            workers.append(worker)
        while workers:
            ready, _, _ = select.select([worker.process.stdout for worker in workers], [], [], 1)
            late = seconds is not None and time.monotonic() - began > seconds
            for worker in list(workers):
                line = worker.process.stdout.readline() if worker.process.stdout in ready else ""
                is_lost = not line and (worker.process.poll() is not None or time.monotonic() - worker.began > limit)
                if not line and not is_lost and not late:
                    continue
                if line:
                    yield json.loads(line)
                elif is_lost:
                    code = worker.process.poll()
                    late_one = {"class": worker.name, "reason": f"not done in {limit} s"}
                    yield late_one if code is None else accident(worker.name, f"the process ended with {code}")
                workers.remove(worker)
                if late or not waiting:
                    worker.stop()
                    continue
                if is_lost:
                    worker.stop()
                    worker = Worker(options)
                    worker.began += 60
                worker.give(waiting.popleft())
                workers.append(worker)
    finally:
        for worker in workers:
            worker.stop()


def sampled(names, number, seed):
    return random.Random(seed).sample(names, min(number, len(names)))


def verdict_of(record):
    """One word for a class: what is bad, or else the most that it gets."""
    verdicts = {case[2] for case in record.get("cases", ())}
    for one in (*BAD, "computed", "handed", "refused"):
        if one in verdicts:
            return one
    return "not runnable" if "cases" in record else "not made"


def line_of(record):
    """A class in one line."""
    name = record["class"].split(":")[1]
    if "cases" not in record:
        return f"{name}: not made: {record['reason'][:60]}"
    counts = collections.Counter(case[2] for case in record["cases"])
    parts = [f"{number} {verdict}" for verdict, number in counts.most_common()]
    parts += [f"{mode} not noticed" for mode, noticed in record["noticed"].items() if noticed is False]
    parts += [f"{case[2]} in {case[0]}, {case[1]}: {case[3][:80]}" for case in record["cases"] if case[2] in BAD][:2]
    return f"{name}: {', '.join(parts)}"


def reason_of(note, name):
    """A message without what differs from class to class."""
    words = re.sub(r"\[[\d, ]*\]|\d+", "#", note.replace(name, "the model").replace("fa512: ", ""))
    words = re.sub(r"^ValueError: |this attention is computed by ", "", words)
    return re.sub(r"attention of [\w#]+ is", "attention of the model is", words)[:150]


def summary_of(found):
    """Lines that count the records: classes, cases, and why cases were handed over or refused."""
    classes_by = collections.Counter(map(verdict_of, found))
    cases = collections.Counter(case[2] for record in found for case in record.get("cases", ()))
    yield f"{len(found)} classes: " + ", ".join(f"{number} {verdict}" for verdict, number in classes_by.most_common())
    yield f"{sum(cases.values())} cases: " + ", ".join(f"{number} {verdict}" for verdict, number in cases.most_common())
    for mode in ("uniform", "no mask"):
        seen = [record["noticed"].get(mode) for record in found if "noticed" in record]
        yield f"wrong attention ({mode}) is noticed in {seen.count(True)} of {seen.count(True) + seen.count(False)} classes that call it"
    for verdict, words in (("handed", "PyTorch computes (cases)"), ("refused", "refused (cases)")):
        reasons = collections.Counter()
        for record in found:
            for case in record.get("cases", ()):
                if case[2] == verdict or verdict == "handed" and case[2] == "computed" and case[3]:
                    notes = case[3].split(" / ") if case[3] else ["the whole model, as warned when it was made"]
                    reasons.update({reason_of(note, record["class"].split(":")[1]) for note in notes})
        yield f"{words}:"
        yield from (f"    {number}  {reason}" for reason, number in reasons.most_common())


def versions(options):
    """What a record is of."""
    made = [f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "torch", "sentence-transformers")]
    said = [f"--{name} {value}" for name, value in (("only", options.only), ("sample", options.sample), ("wrong", options.wrong)) if value]
    return ", ".join([*made, "without compile" if options.no_compile else "with compile", *said])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the record, a line a class")
    parser.add_argument("--json", help="every case, as JSON lines")
    parser.add_argument("--only", help="classes whose names have this in them (a regular expression)")
    parser.add_argument("--seconds", type=float, help="stop after so many")
    parser.add_argument("--sample", type=int, help="so many classes at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes half the time")
    parser.add_argument("--wrong", choices=["uniform", "no mask"], help="a control: wrong attention, which must be found")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    names = [name for name in classes() if not options.only or re.search(options.only, name)]
    if options.sample:
        names = sampled(names, options.sample, options.seed)
    passed_on = ["--no-compile"] * options.no_compile + (["--wrong", options.wrong] if options.wrong else [])
    with contextlib.ExitStack() as stack:
        everything = stack.enter_context(open(options.json, "w")) if options.json else None
        found = []
        for record in records(names, passed_on, options.seconds):
            found.append(record)
            print(f"{len(found)}/{len(names)} {record.get('seconds', '')} {line_of(record)}", file=sys.stderr, flush=True)
            if everything:
                print(json.dumps(record), file=everything, flush=True)
    summary = [versions(options), *summary_of(found)]
    print("\n".join(summary))
    if options.out:
        pathlib.Path(options.out).write_text("\n".join([*summary, "", *sorted(map(line_of, found))]) + "\n")
    return int(any(verdict_of(record) in BAD for record in found))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
