"""The cases that every model class meets, and their verdicts; every_model.py says which there are."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import logging
import os
import random
import sys
import tempfile
import time
import traceback

import torch

import as_gpu
import cpu
from tiny_models import (
    BAD,
    BATCH,
    FIRST_TOKEN,
    HIDDEN,
    LENGTH,
    MASKS,
    MOST_PARAMETERS,
    RECIPES,
    VOCABULARY,
    Inputs,
    build,
    composed,
    field,
    load,
    mask_of,
    normal,
    randomize,
    size,
    tiny,
    tokens,
)

NAME = "fa512_flash"


# Results.


def flat(result, prefix=""):
    """Every tensor of numbers in a model's result, by name, except caches."""
    if isinstance(result, torch.Tensor):
        if result.is_floating_point():
            yield prefix, result
    elif isinstance(result, dict):
        for name, value in result.items():
            if "past_key_values" not in name and name not in ("loss", "aux_loss", "router_logits", "cross_attentions", "attentions"):
                yield from flat(value, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(result, (list, tuple)):
        for index, value in enumerate(result):
            yield from flat(value, f"{prefix}[{index}]")


def call(model, arguments):
    torch.default_generator.manual_seed(0)
    random.seed(0)
    return {name: value.detach().float().clone() for name, value in flat(model(**arguments))}


def kept(tensor, name, mask):
    """The rows of real tokens: of padded texts, of [batch, tokens, …] tensors the tokens and of others nothing."""
    if mask is None or tensor.dim() == 0:
        return tensor
    batch, length = mask.shape
    keep = mask.bool()
    if "logits_per" in name and tensor.shape == (batch, batch):
        return tensor[keep.all(1)][:, keep.all(1)]
    if tensor.dim() >= 2 and tensor.shape[:2] == (batch, length):
        return tensor[keep]
    if tensor.shape[0] == batch and tensor.dim() > 2 and length < tensor.shape[1] and is_right(mask):
        # Rows of samples: each row is of several, so that the last real ones are uncertain.
        rows = [int(tensor.shape[1] * share) - 2 for share in keep.float().mean(1).tolist()]
        return torch.cat([one[: max(count, 0)] for one, count in zip(tensor, rows)])
    if tensor.shape[0] == batch:
        return tensor[keep.all(1)]
    return tensor[:0]


def is_right(mask):
    """Whether all padding follows the tokens."""
    return bool((mask[:, 1:] <= mask[:, :-1]).all())


def kept_by_decoder(tensor, name, mask):
    """Of models with a decoder: its rows are no padding, whatever the encoder's are, but a text without any token has none."""
    if mask is None or name.startswith("encoder") or tensor.dim() < 2 or tensor.shape[0] != mask.shape[0]:
        return kept(tensor, name, mask)
    return tensor[mask.bool().any(1)]


def distance(one, other, mask, rows=kept):
    """The largest difference over the largest value, of the tensor in which it is largest; NaN where eager has NaN."""
    worst, where = 0.0, ""
    for name, value in other.items():
        if name not in one:
            return float("inf"), f"{name} is missing"
        a, b = one[name], value
        if a.shape != b.shape:
            return float("inf"), f"{name} has the shape {list(a.shape)}, eager's {list(b.shape)}"
        a, b = rows(a, name, mask), rows(b, name, mask)
        if b.numel() == 0:
            continue
        if not torch.isfinite(b).all():
            if torch.equal(torch.isfinite(a), torch.isfinite(b)):
                keep = torch.isfinite(b)
                a, b = a[keep], b[keep]
                if b.numel() == 0:
                    continue
            else:
                return float("nan"), f"{name} of eager is not finite"
        by = (a - b).abs().max().item() / max(b.abs().max().item(), 1e-6)
        if by != by:
            return float("inf"), f"{name} is NaN"
        if by > worst:
            worst, where = by, name
    return worst, where


# A deliberately wrong attention, which must be noticed, and which also tells what a model passes on.

CONTROL = "control"
_control = {"mode": "right", "seen": set(), "calls": 0}


def control(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **others):
    """SDPA; "uniform": every key counts alike; "no mask": nothing is masked; bounds: packed sequences, whatever the mask is;
    a number: the result is off by about so much of itself."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    _control["calls"] += 1
    _control["seen"].update(name for name, value in others.items() if value is not None)
    if _control["mode"] == "uniform":
        query = query * 0
    elif _control["mode"] == "no mask":
        attention_mask, is_causal = None, False
    elif isinstance(_control["mode"], tuple):
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        attention_mask = within(_control["mode"], query.shape[2], causal, others.get("sliding_window"))
    out, _ = sdpa_attention_forward(module, query, key, value, attention_mask, 0.0, scaling, is_causal, **others)
    if isinstance(_control["mode"], float):
        out = out * (1 + _control["mode"] * torch.randn_like(out))
    return out, None


def wrongly(mode, *arguments, **keywords):
    with controlled(mode):
        return control(*arguments, **keywords)


def within(bounds, rows, causal, window):
    """Which keys each query of packed sequences sees, [rows, rows]; rows behind them see themselves."""
    number = torch.bucketize(torch.arange(rows), torch.tensor(bounds[1:]), right=True)
    number[bounds[-1] :] += torch.arange(rows - bounds[-1])
    back = torch.arange(rows)[:, None] - torch.arange(rows)
    sees = number[:, None] == number
    if causal:
        sees &= back >= 0
    if window is not None:
        sees &= back.abs() < window
    return sees[None, None]


@contextlib.contextmanager
def controlled(mode):
    _control.update(mode=mode, seen=set(), calls=0)
    try:
        yield _control["seen"]
    finally:
        _control["mode"] = "right"


# The cases.


class NotRunnable(Exception):
    """Eager cannot do it, or is not finite."""


class Log(logging.Handler):
    """What fa512 warns about."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.words = []

    def emit(self, record):
        self.words.append(record.getMessage())


def is_refusal(error):
    """Whether an error is one of fa512, or of transformers about the attention fa512_flash, and no accident."""
    if not isinstance(error, (ValueError, NotImplementedError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return "fa512" in str(error) or bool(frames) and f"{os.sep}fa512{os.sep}" in frames[-1].filename


@contextlib.contextmanager
def exact():
    """Lets the operators take float32, so that what is wrong stands out from what is rounded."""
    from fa512.torch import _library

    elements = _library.ELEMENTS
    _library.ELEMENTS = (*elements, torch.float32)
    try:
        yield
    finally:
        _library.ELEMENTS = elements


@contextlib.contextmanager
def as_on_a_gpu():
    """Calls go the way that they go on a GPU, around PyTorch's dispatcher."""
    with contextlib.ExitStack() as stack:
        as_gpu.install(stack.callback)
        yield


class Subject:
    """A class of models and its results."""

    def __init__(self, model_class, config, kind, reference):
        self.model_class, self.config, self.reference = model_class, config, reference
        self.inputs = Inputs(model_class, config, kind)
        self.rows = kept_by_decoder if self.inputs.has_decoder else kept
        self.results, self._made = [], {}
        self.log = Log()
        logging.getLogger("fa512").addHandler(self.log)

    def model(self, attention, dtype=torch.float32):
        """With the weights of the reference; made once."""
        key = attention, dtype
        if key not in self._made:
            try:
                self._made[key] = build(self.model_class, self.config, attention, dtype, self.reference)
            except Exception as error:
                self._made[key] = error
        if isinstance(self._made[key], Exception):
            raise self._made[key]
        return self._made[key]

    def eager(self, arguments, model=None):
        try:
            with torch.no_grad():
                return call(model or self.reference, arguments)
        except Exception as error:
            raise NotRunnable(f"eager: {type(error).__name__}: {first_line(error)}") from error

    def noise(self, expected, mask, run):
        """How far another way to compute the same is from eager; with that result."""
        try:
            other = run()
        except Exception:
            return 0.0, None
        by, _ = distance(other, expected, mask, self.rows)
        return (by, other) if by == by else (0.0, None)

    def case(self, name, state, run, expected, mask=None, also=(), tolerance=2e-4, rows=None):
        """Judges one case. `also` are results that are right, too; functions give expected results later."""
        rows = rows or self.rows
        cpu.calls(), as_gpu.called()
        self.log.words.clear()
        forget_warnings()
        try:
            expected = expected() if callable(expected) else expected
        except NotRunnable as error:
            return self.add(name, state, "not runnable", str(error))
        for _, value in expected.items():
            if mask is None and not value.isfinite().all() and not value.isinf().any():
                return self.add(name, state, "not runnable", "eager is NaN")
        try:
            result = run()
        except NotRunnable as error:
            return self.add(name, state, "not runnable", str(error))
        except Exception as error:
            verdict = "refused" if is_refusal(error) else "ERROR"
            return self.add(name, state, verdict, f"{type(error).__name__}: {first_line(error)}")
        calls = cpu.calls() + as_gpu.called()
        verdict = "computed" if calls else "handed"
        note = " / ".join(dict.fromkeys(self.log.words))
        by, where = distance(result, expected, mask, rows)
        if by != by:
            return self.add(name, state, "not runnable", where)
        for other in also:
            if by > tolerance:
                by = min(by, self.other_distance(result, other, mask, rows))
        if not by <= tolerance:
            return self.add(name, state, "WRONG", f"off {by:.2g} of the largest value, in {where} ({verdict})")
        self.add(name, state, verdict, note)

    @staticmethod
    def other_distance(result, other, mask, rows):
        """The distance to another result that is right, too, if there is one."""
        try:
            other = other() if callable(other) else other
        except Exception:
            other = None
        return float("inf") if other is None else distance(result, other, mask, rows)[0]

    def add(self, name, state, verdict, note=""):
        self.results.append((name, state, verdict, note))


def first_line(error):
    words = str(error).strip().splitlines()
    return words[0][:240] if words else ""


def forget_warnings():
    """Warnings are given once; here once a case."""
    for name in ("", "._attention", "._by_pytorch", "._models"):
        known = getattr(sys.modules.get(f"fa512.transformers{name}"), "_warned", None)
        if isinstance(known, set):
            known.clear()


def runner(model, arguments, context=None):
    def run():
        with torch.no_grad(), (context() if context else contextlib.nullcontext()):
            return call(model, arguments)

    return run


def lazily(subject, attention, dtype, arguments, context=None, switched=False):
    """A call of a model that is made when it is called: its errors count."""

    def run():
        if switched:
            model = build(subject.model_class, subject.config, "eager", dtype, subject.reference)
            model.set_attn_implementation(attention)
        else:
            model = subject.model(attention, dtype)
        return runner(model, arguments, context)()

    return run


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


def inference():
    return torch.inference_mode()


def takes_a_mask(inputs):
    return inputs.mask_name and inputs.kind not in ("image", "video", "patches", "series")


def masks_and_states(subject, compiles):
    """Each mask in each state."""
    inputs = subject.inputs
    masks = {"none": None}
    if takes_a_mask(inputs):
        masks.update((name, mask_of(spans)) for name, spans in MASKS.items())
    for name, mask in masks.items():
        arguments = inputs.make(mask=mask)
        try:
            expected = subject.eager(arguments)
        except NotRunnable as error:
            subject.add(name, "every state", "not runnable", str(error))
            continue
        noise, sdpa = subject.noise(expected, mask, lazily(subject, "sdpa", torch.float32, arguments))
        also = [sdpa] if noise > 1e-4 else []
        with exact():
            subject.case(name, "eval", lazily(subject, NAME, torch.float32, arguments), expected, mask, also)
            subject.case(name, "inference", lazily(subject, NAME, torch.float32, arguments, inference), expected, mask, also)
            with as_on_a_gpu():
                subject.case(name, "direct", lazily(subject, NAME, torch.float32, arguments, inference), expected, mask, also)
            subject.case(name, "rewritten", lambda: rewritten(subject, inputs, mask), expected, mask, also)
            if name in ("none", "right"):
                run = lazily(subject, NAME, torch.float32, arguments, switched=True)
                subject.case(name, "switched", run, expected, mask, also)
        for state, dtype, context in (("half", torch.float16, None), ("autocast", torch.float32, autocast)):
            arguments16 = {key: cast(value, dtype) for key, value in arguments.items()}
            others = [lazily(subject, of, dtype, arguments16, context) for of in ("sdpa", "eager")]
            spreads = [subject.noise(expected, mask, other) for other in others]
            spread = max(by for by, _ in spreads)
            if spread > 0.1:
                subject.add(name, state, "not runnable", f"rounding alone is off {spread:.2g}")
                continue
            if all(other is None for _, other in spreads):
                subject.add(name, state, "not runnable", "neither SDPA nor eager runs in this type")
                continue
            run = lazily(subject, NAME, dtype, arguments16, context)
            subject.case(name, state, run, expected, mask, also, tolerance=4 * spread + 0.01)
            if subject.results[-1][2] == "WRONG":
                # A choice among nearly equal values may fall otherwise.
                rounded = lazily(subject, CONTROL, dtype, arguments16, context)
                for loss in (0.5, 1.0, 2.0, 4.0):
                    with controlled(loss * torch.finfo(torch.bfloat16 if context else dtype).eps):
                        spread = max(spread, subject.noise(expected, mask, rounded)[0])
                if spread > 0.1:
                    subject.results[-1] = (name, state, "not runnable", f"rounding alone is off {spread:.2g}")
        if name in ("none", "right", "left"):
            gradients(subject, name, arguments, mask)
        if compiles and name in ("none", "right") and any(r[:3] == (name, "eval", "computed") for r in subject.results):
            compiled(subject, name, arguments, expected, mask, also)


def gradients(subject, name, arguments, mask):
    """The gradients of all parameters, as one vector, for a loss of the rows of real tokens."""

    def of(model):
        torch.default_generator.manual_seed(0)
        model.zero_grad(set_to_none=True)
        rows = [subject.rows(value, where, mask).float() for where, value in flat(model(**arguments))]
        sum((one * normal(*one.shape)).sum() for one in rows if one.numel()).backward()
        found = {where: tensor.grad for where, tensor in model.named_parameters() if tensor.grad is not None}
        model.zero_grad(set_to_none=True)
        return found

    try:
        expected = of(subject.reference)
    except Exception as error:
        return subject.add(name, "gradient", "not runnable", f"eager: {first_line(error)}")

    def as_one(found):
        parts = [found[where] if where in found else torch.zeros_like(value) for where, value in expected.items()]
        return {"gradients": torch.cat([part.flatten().float() for part in parts])}

    by_sdpa, _ = subject.noise(as_one(expected), None, lambda: as_one(of(subject.model("sdpa"))))
    with exact():
        subject.case(name, "gradient", lambda: as_one(of(subject.model(NAME))), as_one(expected), tolerance=1e-3 + 4 * by_sdpa)


def compiled(subject, name, arguments, expected, mask, also):
    """The compiled model, if the model with SDPA compiles."""

    def run(attention):
        model = subject.model(attention)
        torch._dynamo.reset()
        return runner(torch.compile(model, backend="eager"), arguments)()

    with exact():
        subject.case(name, "compile", lambda: run(NAME), expected, mask, also)
    if subject.results[-1][2] in BAD:
        try:
            by, _ = distance(run("sdpa"), expected, mask, subject.rows)
        except Exception:
            by = float("inf")
        if by > 1e-3:
            subject.results[-1] = (name, "compile", "not runnable", "the model with SDPA does not compile")


def cast(value, dtype):
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def rewritten(subject, inputs, mask):
    """The last of two calls with the same tensors, whose contents change in between. Masks are boolean: no copy is made of them."""
    model = subject.model(NAME)
    with torch.inference_mode():
        made = inputs.make(mask=mask)
        before = inputs.make(mask=None if mask is None else mask.flip(0).roll(2, 1), seed=5, batch=len(next(iter(made.values()))))
        static = {}
        for name, value in made.items():
            is_mask = name == inputs.mask_name
            static[name] = before.get(name, value).clone().bool() if is_mask else before.get(name, value).clone()
        try:
            call(model, static)
        except Exception as error:
            if is_refusal(error):
                raise
            for name, value in static.items():
                static[name] = made[name].clone()
            call(model, static)
        for name, value in static.items():
            value.copy_(made[name])
        return call(model, static)


def cross_attention(subject):
    """Decoders' queries and an encoder's keys: as many, fewer, more; with padding of either."""
    inputs = subject.inputs
    if inputs.has_decoder:
        for decoder_length in (LENGTH, 7, 15):
            for name in (None, "right", "left", "one token"):
                if (decoder_length, name) != (LENGTH, None):
                    mask = None if name is None else mask_of(MASKS[name])
                    arguments = inputs.make(mask=mask, decoder_length=decoder_length)
                    both = f"cross {decoder_length} of {LENGTH}, {name}"
                    in_float32(subject, both, arguments, mask)
        if "decoder_attention_mask" in inputs.names:
            mask = mask_of(MASKS["right"])
            arguments = {**inputs.make(), "decoder_attention_mask": mask}
            in_float32(subject, "decoder's mask, right", arguments, mask, rows=kept)
            arguments = {**inputs.make(mask=mask.flip(0)), "decoder_attention_mask": mask}
            in_float32(subject, "both masks, right", arguments, mask, rows=only_last_hidden_state)
        return
    if "encoder_hidden_states" not in inputs.names or not hasattr(subject.config, "add_cross_attention") or not inputs.is_text:
        return
    try:
        config = copy.deepcopy(subject.config)
        config.is_decoder = config.add_cross_attention = True
        reference = build(subject.model_class, config, "eager", torch.float32)
        randomize(reference)
        other = Subject(subject.model_class, config, inputs.kind, reference)
    except Exception as error:
        subject.add("cross", "eval", "not runnable", f"eager: {first_line(error)}")
        return
    hidden = field(config, "hidden_size", "d_model", "n_embd", "emb_dim", default=HIDDEN)
    for keys in (LENGTH, 7, 15):
        for name in (None, "right", "gaps", "left"):
            spans = [[0, keys]] * BATCH if name is None else [[min(x, keys) for x in row] for row in MASKS[name]]
            arguments = inputs.make()
            arguments["encoder_hidden_states"] = normal(BATCH, keys, hidden, seed=3)
            if name is not None:
                arguments["encoder_attention_mask"] = mask_of(spans, keys)
            in_float32(other, f"cross {LENGTH} of {keys}, {name}", arguments, None)
    arguments = inputs.make(mask=mask_of(MASKS["right"]))
    arguments["encoder_hidden_states"] = normal(BATCH, LENGTH, hidden, seed=3)
    arguments["encoder_attention_mask"] = mask_of(MASKS["gaps"])
    in_float32(other, "cross, both masks", arguments, mask_of(MASKS["right"]))
    subject.results += other.results


def only_last_hidden_state(tensor, name, mask):
    return kept(tensor, name, mask) if name == "last_hidden_state" else tensor[:0]


def in_float32(subject, name, arguments, mask, rows=None, also=()):
    """One case of a call."""
    try:
        expected = subject.eager(arguments)
    except NotRunnable as error:
        return subject.add(name, "eval", "not runnable", str(error))
    noise, sdpa = subject.noise(expected, mask, lazily(subject, "sdpa", torch.float32, arguments))
    with exact():
        run = lazily(subject, NAME, torch.float32, arguments)
        subject.case(name, "eval", run, expected, mask, [*also, *([sdpa] if noise > 1e-4 else [])], rows=rows)


def positions_and_masks(subject):
    """What `generate` passes: positions that count the tokens of a padded text. And texts of a batch that are packed rows themselves."""
    inputs = subject.inputs
    if not inputs.is_text or inputs.has_decoder or not {"position_ids", "attention_mask"} <= inputs.names:
        return
    offset = first_position(subject.reference)
    for name in ("left", "right", "gaps"):
        mask = mask_of(MASKS[name])
        arguments = {**inputs.make(mask=mask), "position_ids": (mask.cumsum(1) - 1).clamp(min=0) + offset}
        in_float32(subject, f"{name}, with position_ids", arguments, mask)
    positions = torch.stack([torch.tensor([*range(n), *range(LENGTH - n)]) for n in (5, 4, 12)]) + offset
    cache = {"use_cache": False} if "use_cache" in inputs.names else {}
    in_float32(subject, "position_ids of a batch", {**inputs.make(), **cache, "position_ids": positions}, None)
    if inputs.kind == "text":
        arguments = {**packed_arguments(subject, [0, 5, 12], 12, False), **cache}
        arguments["attention_mask"] = torch.ones(1, LENGTH, dtype=torch.long)
        # transformers' masks take a mask of ones for one text, its flash attention does not.
        others = [functools.partial(apart, subject, [0, 5, 12])]
        others.append(functools.partial(with_attention_apart, subject, arguments, [0, 5, 12]))
        in_float32(subject, "position_ids and a mask of ones", arguments, None, rows=of_tokens, also=others)


def of_tokens(tensor, name, mask):
    return tensor if tensor.dim() > 2 else tensor[:0]


def cached(subject):
    """A text that goes on behind cached keys: a part, several tokens, one token."""
    inputs = subject.inputs
    if not inputs.is_text or inputs.has_decoder or not {"past_key_values", "use_cache"} <= inputs.names:
        return

    def through(model, mask):
        cache, parts, begin = None, [], 0
        ids = inputs.make(mask=mask)["input_ids"]
        for end in (7, 11, 12):
            arguments = {"input_ids": ids[:, begin:end], "use_cache": True}
            if mask is not None:
                arguments["attention_mask"] = mask[:, :end]
            if cache is not None:
                arguments["past_key_values"] = cache
            with torch.no_grad():
                result = model(**arguments)
            cache = result.past_key_values
            if cache is None:
                raise NotRunnable("no cache is given back")
            parts.append(result.last_hidden_state.float())
            begin = end
        return {"last_hidden_state": torch.cat(parts, dim=1)}

    def eager(mask, attention=None):
        try:
            return through(subject.model(attention) if attention else subject.reference, mask)
        except NotRunnable:
            raise
        except Exception as error:
            raise NotRunnable(f"eager: {first_line(error)}") from error

    def ours(mask):
        return through(subject.model(NAME), mask)

    def at_once(mask, attention):
        made = subject.eager(inputs.make(mask=mask), subject.model(attention))
        return {"last_hidden_state": made["last_hidden_state"]}

    for name, mask in (("none", None), ("left", mask_of(MASKS["left"])), ("right", mask_of(MASKS["right"]))):
        try:
            expected = eager(mask)
        except NotRunnable as error:
            subject.add(f"cached, {name}", "eval", "not runnable", str(error))
            continue
        with exact():
            also = [functools.partial(at_once, mask, attention) for attention in ("eager", "sdpa")]
            also.append(functools.partial(eager, mask, "sdpa"))
            if mask is None:
                also.append(functools.partial(eager, torch.ones(BATCH, LENGTH, dtype=torch.long)))
            subject.case(f"cached, {name}", "eval", functools.partial(ours, mask), expected, mask, also)


def packed_arguments(subject, bounds, rows, with_lengths):
    """[1, rows] tokens of sequences with these bounds."""
    made = {"input_ids": tokens(1, rows, 0)}
    if "position_ids" in subject.inputs.names:
        positions = torch.zeros(1, rows, dtype=torch.long)
        for begin, end in zip(bounds, bounds[1:]):
            positions[0, begin:end] = torch.arange(end - begin)
        made["position_ids"] = positions + first_position(subject.reference)
    if with_lengths:
        longest = max(end - begin for begin, end in zip(bounds, bounds[1:]))
        for side in ("q", "k"):
            made[f"cu_seq_lens_{side}"] = torch.tensor(bounds, dtype=torch.int32)
            made[f"max_length_{side}"] = longest
    return made


def apart(subject, bounds, attention=None):
    """The result of each sequence by itself, by eager or another attention, of those results that have a row for each token."""
    made, parts, lengths = packed_arguments(subject, bounds, bounds[-1], False), [], []
    for begin, end in zip(bounds, bounds[1:]):
        if end > begin:
            model = subject.model(attention) if attention else None
            parts.append(subject.eager({name: value[:, begin:end] for name, value in made.items()}, model))
            lengths.append(end - begin)
    of_rows = [
        name for name, value in parts[0].items() if value.dim() > 1 and all(part[name].shape[1] == n for part, n in zip(parts, lengths))
    ]
    if not of_rows:
        raise NotRunnable("no result has a row for each token")
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in of_rows}


def with_attention_apart(subject, arguments, bounds):
    """The result where attention is within sequences, whatever else the model mixes: recurrences, convolutions."""
    model = subject.model(CONTROL)
    with controlled(tuple(bounds)):
        made = subject.eager(arguments, model)
        if not _control["calls"]:
            raise NotRunnable("its attention is its own")
    return {name: value[:, : bounds[-1]] for name, value in made.items() if value.dim() > 2}


def as_expected(result, expected):
    """The results and rows that are expected. Rows behind the last sequence are anything."""
    count = next(iter(expected.values())).shape[1]
    return {name: value[:, :count] for name, value in result.items() if name in expected}


def packed(subject):
    """Packed sequences: [1, rows] with cu_seq_lens, or with position_ids that begin anew. Each sequence by itself is what is right."""
    inputs = subject.inputs
    if inputs.kind != "text" or not inputs.is_text or inputs.has_decoder:
        return
    caches = [{}] if "use_cache" not in inputs.names else [{"use_cache": True}, {"use_cache": False}]
    if inputs.takes_more or "cu_seq_lens_q" in inputs.names:
        for bounds, rows in (([0, 5, 12], 12), ([0, 12], 20), ([0, 5, 12], 20), ([0, 4, 4, 12], 12)):
            for cache in caches:
                name = f"cu_seq_lens {bounds} over {rows} rows{''.join(f', {k}={v}' for k, v in cache.items())}"
                packed_case(subject, name, {**packed_arguments(subject, bounds, rows, True), **cache}, bounds)
        rewritten_lengths(subject)
    if "position_ids" in inputs.names:
        passes = "position_ids" in what_is_passed_on(subject, packed_arguments(subject, [0, 5, 12], 12, False))
        for cache in caches:
            name = f"position_ids alone{''.join(f', {k}={v}' for k, v in cache.items())}"
            arguments = {**packed_arguments(subject, [0, 5, 12], 12, False), **cache}
            positions_case(subject, name, arguments, caches[-1], passes)


def first_position(model):
    """1 + the index of padding for models that count positions from there."""
    for module in model.modules():
        if hasattr(module, "create_position_ids_from_input_ids") and getattr(module, "padding_idx", None) is not None:
            return module.padding_idx + 1
    return 0


def what_is_passed_on(subject, arguments):
    """Names of the arguments that reach an attention registered with transformers."""
    with controlled("right") as seen:
        try:
            call(subject.model(CONTROL), arguments)
        except Exception:
            pass
        return set(seen)


def packed_case(subject, name, arguments, bounds, run=None, state="eval"):
    """Each sequence by itself, or refused: also by a model that hands the bounds to no attention."""
    run = run or lazily(subject, NAME, torch.float32, arguments)
    try:
        expected = apart(subject, bounds)
        subject.eager(arguments)
    except NotRunnable as error:
        return subject.add(name, state, "not runnable", str(error))
    also = [functools.partial(apart, subject, bounds, "sdpa"), functools.partial(with_attention_apart, subject, arguments, bounds)]
    with exact():
        subject.case(name, state, lambda: as_expected(run(), expected), expected, None, also)


def rewritten_lengths(subject):
    """The bounds are rewritten in place between two calls."""
    before, after = packed_arguments(subject, [0, 7, 12], 12, True), packed_arguments(subject, [0, 5, 12], 12, True)

    def run():
        model = subject.model(NAME)
        with torch.inference_mode():
            static = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in before.items()}
            call(model, static)
            for name, value in static.items():
                if isinstance(value, torch.Tensor):
                    value.copy_(after[name])
            return call(model, static)

    packed_case(subject, "cu_seq_lens", after, [0, 5, 12], run, "rewritten")


def positions_case(subject, name, arguments, without_cache, passes):
    """What transformers' masks separate without a cache is to be separated with one, too, as its flash attention does, if the positions
    are passed on to it."""
    try:
        expected = apart(subject, [0, 5, 12])
        by_masks = as_expected(subject.eager({**arguments, **without_cache}), expected)
        together = as_expected(subject.eager(arguments), expected)
    except NotRunnable as error:
        return subject.add(name, "eval", "not runnable", str(error))
    separates = distance(by_masks, expected, None)[0] < 2e-4
    with exact():
        run = lazily(subject, NAME, torch.float32, arguments)

        def as_it_does():
            # A model that is handed over as a whole does what it does by that attention.
            instead = subject.model(NAME).config._attn_implementation
            if instead != NAME:
                return as_expected(subject.eager(arguments, subject.model(instead)), expected)
            return None if separates and passes else together

        def together_by_sdpa():
            return None if separates and passes else as_expected(subject.eager(arguments, subject.model("sdpa")), expected)

        also = [as_it_does, together_by_sdpa, functools.partial(apart, subject, [0, 5, 12], "sdpa")]
        also.append(functools.partial(with_attention_apart, subject, arguments, [0, 5, 12]))
        subject.case(name, "eval", lambda: as_expected(run(), expected), expected, None, also)


TEXTS = ["w7", "w8 w9 w10 w11 w12 w13 w14 w15 w16", "w20 w21 w22 w23", "w9 w30 w31 w32 w33 w34 w35", "w17 w18"]


def embedder(subject):
    """The model as an embedder of sentence-transformers, saved and loaded: texts together as each by itself."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    inputs, config = subject.inputs, subject.config
    is_loaded = MODEL_MAPPING.get(type(config), None) is subject.model_class
    if inputs.kind != "text" or inputs.has_decoder or not is_loaded and not subject.model_class.__name__.endswith("T5EncoderModel"):
        return
    with tempfile.TemporaryDirectory() as folder:

        def embed(attention, texts=TEXTS):
            return {"embeddings": embedded(folder, attention, texts, inputs.padding)}

        try:
            subject.reference.save_pretrained(folder)
            words_of(inputs.padding).save_pretrained(folder)
            expected = {"embeddings": torch.cat([embed("eager", [text])["embeddings"] for text in TEXTS])}
        except Exception as error:
            return subject.add("embedder", "eval", "not runnable", f"eager: {first_line(error)}")
        also = [functools.partial(embed, "eager"), functools.partial(embed, "sdpa"), functools.partial(flattened, subject, folder)]
        with exact():
            subject.case("embedder", "eval", functools.partial(embed, NAME), expected, None, also)


def flattened(subject, folder):
    """The texts in one row, as sentence-transformers lays them, with attention kept apart."""
    features = transformer_of(folder, NAME, subject.inputs.padding).preprocess(TEXTS)
    if "cu_seq_lens_q" not in features:
        return None
    names = ("input_ids", "position_ids", "seq_idx", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
    bounds = features["cu_seq_lens_q"].tolist()
    rows = with_attention_apart(subject, {name: features[name] for name in names if name in features}, bounds)
    return {"embeddings": torch.stack([rows["last_hidden_state"][0, a:b].mean(0) for a, b in zip(bounds, bounds[1:])])}


def words_of(padding):
    """A tokenizer of words "w0", "w1" and so on, whose numbers are their tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = {padding: "[PAD]", FIRST_TOKEN - 1: "[UNK]"}
    vocabulary = {names.get(n, f"w{n}"): n for n in range(VOCABULARY)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32)


def transformer_of(folder, attention, padding):
    from sentence_transformers.models import Transformer

    made = Transformer(folder, model_kwargs={"attn_implementation": attention, "dtype": "float32"})
    # The tokenizer that was loaded is one of the model's own type.
    made.processor = words_of(padding)
    return made


def embedded(folder, attention, texts, padding):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling

    transformer = transformer_of(folder, attention, padding)
    pooling = Pooling(transformer.get_word_embedding_dimension(), "mean")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    # As `encode`, which sorts the texts before.
    with torch.inference_mode():
        return model(model.preprocess(texts))["sentence_embedding"].float()


def controls(subject):
    """Whether wrong attention is noticed: uniform without a mask, and unmasked with one. None where the model does not call it."""
    noticed = {}
    for mode, mask in (("right", None), ("uniform", None), ("no mask", mask_of(MASKS["right"]))):
        if mask is not None and not takes_a_mask(subject.inputs):
            noticed[mode] = None
            continue
        arguments = subject.inputs.make(mask=mask)
        try:
            expected = subject.eager(arguments)
            with controlled(mode), torch.no_grad():
                result = call(subject.model(CONTROL), arguments)
            by, _ = distance(result, expected, mask, subject.rows)
            noticed[mode] = by > 2e-4 if _control["calls"] else None
        except Exception:
            noticed[mode] = None
    if noticed.pop("right"):
        return {mode: None for mode in noticed}
    return noticed


def subject_of(name):
    """The class made tiny, with the inputs that eager takes; or the reason why not."""
    from transformers import PreTrainedModel

    model_class = load(name)
    if not (isinstance(model_class, type) and issubclass(model_class, PreTrainedModel)):
        return "it is no PreTrainedModel"
    if model_class.config_class is None:
        return "it has no configuration class"
    if model_class.forward is torch.nn.Module.forward:
        return "it has no forward"
    reasons = []
    parts = [part for part in getattr(model_class.config_class, "sub_configs", {}).values() if hasattr(part, "sub_configs")]
    config_classes = [model_class.config_class, *parts]
    for config_class, (keep, more) in itertools.product(config_classes, RECIPES):
        try:
            config = composed(model_class) or tiny(config_class, keep, **more)
            parameters = size(model_class, config)
            if parameters > MOST_PARAMETERS:
                reasons.append(f"{parameters / 1e6:.0f} million parameters")
                continue
            reference = build(model_class, config, "eager", torch.float32)
            randomize(reference)
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {first_line(error)}")
            continue
        for kind in Inputs.kinds(model_class):
            try:
                arguments = Inputs(model_class, config, kind).make()
                if not arguments:
                    continue
                with torch.no_grad():
                    result = call(reference, arguments)
                if not result:
                    continue
                if not all(value.isfinite().all() for value in result.values()):
                    reasons.append(f"{kind}: eager is not finite")
                    continue
                return Subject(model_class, config, kind, reference)
            except Exception as error:
                reasons.append(f"{kind}: {type(error).__name__}: {first_line(error)}")
    return " | ".join(dict.fromkeys(reasons)) or "forward takes none of the inputs that there are"


def judge(name, compiles=True):
    """The record of one class."""
    began = time.monotonic()
    subject = subject_of(name)
    if isinstance(subject, str):
        return {"class": name, "reason": subject}
    masks_and_states(subject, compiles)
    cross_attention(subject)
    positions_and_masks(subject)
    cached(subject)
    packed(subject)
    embedder(subject)
    noticed = controls(subject)
    logging.getLogger("fa512").removeHandler(subject.log)
    return {
        "class": name,
        "kind": subject.inputs.kind,
        "cases": subject.results,
        "noticed": noticed,
        "flash": bool(subject.model_class._supports_flash_attn),
        "sdpa": bool(subject.model_class._supports_sdpa),
        "seconds": round(time.monotonic() - began, 1),
    }
