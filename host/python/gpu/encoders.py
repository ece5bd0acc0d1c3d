"""Encoders with fa512's attention, beside SDPA: sections of check.py."""

import pathlib
import re
import tempfile

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import fa512
from common import TYPES, device, gpu_milliseconds, host_microseconds, inputs, require, require_close, synchronize

ATTENTION_KERNEL = re.compile("fa512|flash|fmha|sdpa|attention", re.IGNORECASE)
BACKENDS = {"sdpa": None, "sdpa flash": SDPBackend.FLASH_ATTENTION, "sdpa cuDNN": SDPBackend.CUDNN_ATTENTION}


def encoder(attention_name, hidden, heads, layers, place, training=False, length=512, dtype=torch.float16):
    from transformers import BertConfig, BertModel

    import fa512.transformers  # noqa: F401

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=hidden,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        intermediate_size=4 * hidden,
        vocab_size=1000,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    dtype = torch.float32 if training else dtype
    model = BertModel._from_config(config, attn_implementation=attention_name, dtype=dtype, add_pooling_layer=False)
    return model.to(place).train(training)


def training_step(run):
    """Loss and gradients of a small encoder under autocast, compared with SDPA's; then a few steps."""
    place = device(run.dry)
    ids = torch.randint(0, 1000, (4, 64), device=place)

    def step(model):
        if run.dry:
            model = model.half()
        with torch.autocast(place, dtype=torch.float16, enabled=not run.dry):
            loss = model(ids).last_hidden_state.float().square().mean()
        loss.backward()
        return loss

    models = {name: encoder(name, 128, 2, 2, place, training=True) for name in ("fa512_flash", "sdpa")}
    losses = {name: step(model).item() for name, model in models.items()}
    require(abs(losses["fa512_flash"] - losses["sdpa"]) < 1e-2 * abs(losses["sdpa"]), losses)
    for (name, own), (_, theirs) in zip(models["fa512_flash"].named_parameters(), models["sdpa"].named_parameters()):
        if own.grad is not None:
            scale = theirs.grad.float().abs().max().item()
            require_close(own.grad.float(), theirs.grad.float(), f"gradient of {name}", 5e-2 * scale + 1e-4, 5e-2)
    optimizer = torch.optim.SGD(models["fa512_flash"].parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.step()
        optimizer.zero_grad()
        last = step(models["fa512_flash"]).item()
    return {"losses": losses, "loss_after_three_steps": last}


def attention_milliseconds(call):
    """Time and names of the attention kernels in one call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    kernels = [event for event in seen.key_averages() if ATTENTION_KERNEL.search(event.key)]
    return sum(event.device_time_total for event in kernels) / 1000, sorted({event.key[:80] for event in kernels})


def packed_by_fa2(module, query, key, value, mask, scaling=None, cu_seq_lens_q=None, max_length_q=None, **_):
    """Packed sequences by FlashAttention-2, as transformers calls an attention."""
    from fa512.transformers import _by_pytorch

    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    lengths = (cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q)
    return _by_pytorch.attention_varlen(q, k, v, lengths, 0.0, scaling, (False, None, None))[None], None


def host_time_in_models(run):
    """Host time, µs, of one attention as transformers calls it: 6 heads of 64, as in an encoder of MiniLM's size."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from fa512.transformers import attention_forward

    def own(tensors, padding=None, **more):
        return attention_forward(False, module, *tensors, padding, 0.0, 0.125, **more)

    module, place = torch.nn.Module().eval(), device(run.dry)
    module.is_causal = False
    batch, rows = (tuple(x.transpose(1, 2) for x in inputs((*sizes, 6, 64), place)) for sizes in ((4, 64), (1, 256)))
    lengths = torch.tensor([0, 64, 100, 180, 256], dtype=torch.int32, device=place)
    packed = {"cu_seq_lens_q": lengths, "cu_seq_lens_k": lengths, "max_length_q": 80, "max_length_k": 80}
    padding = torch.arange(64, device=place) < torch.tensor([64, 36, 50, 20], device=place)[:, None]
    mask = padding[:, None, None, :].expand(-1, 1, 64, -1)
    calls = {
        "fa512": lambda: own(batch),
        "SDPA": lambda: sdpa_attention_forward(module, *batch, None, 0.0, 0.125, False),
        "fa512, padded": lambda: own(batch, padding),
        "SDPA, padded": lambda: sdpa_attention_forward(module, *batch, mask, 0.0, 0.125, False),
        "fa512, packed": lambda: own(rows, **packed),
        "FA2, packed": lambda: packed_by_fa2(module, *rows, None, 0.125, **packed),
    }
    found = {}
    for name, mode in {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.items():
        with mode():
            found[name] = host_microseconds(calls, 40, 100)
    return {"microseconds": found}


def measure_models(run, hidden, heads, layers, seconds, batches=(1, 4, 16, 64, 256), dtype=torch.float16):
    """Model and attention time, ms, for every length and batch: fa512 beside SDPA's backends."""
    place, rows, wrong = device(run.dry), [], []
    run.found = {"rows": rows}
    own, theirs = (encoder(name, hidden, heads, layers, place, dtype=dtype) for name in ("fa512_flash", "sdpa"))
    for length in (64,) if run.dry else (512, 128):
        for batch in (1, 2) if run.dry else batches:
            if run.left() < 5:
                break
            ids = torch.randint(0, 1000, (batch, length), device=place)
            with torch.inference_mode():
                outputs = own(ids).last_hidden_state, theirs(ids).last_hidden_state
                difference = (outputs[0].float() - outputs[1].float()).abs().max().item()
                if not difference < 6e-2 * TYPES[dtype]:
                    wrong.append(f"{batch} × {length}: the outputs differ by {difference:.3g}")

                def call_of(backend):
                    def call():
                        if backend is None:
                            return theirs(ids)
                        with sdpa_kernel(backend):
                            return theirs(ids)

                    return call

                calls = {"fa512": lambda: own(ids)}
                calls.update({name: call_of(None if run.dry else backend) for name, backend in BACKENDS.items()})
                row = {"length": length, "batch": batch, "difference": difference, "model_ms": {}}
                rows.append(row)
                row["model_ms"] = gpu_milliseconds(calls, seconds, run.dry)
                if not run.dry:
                    parts = {name: attention_milliseconds(call) for name, call in calls.items()}
                    row["attention_ms"] = {name: part[0] for name, part in parts.items()}
                    row["kernels"] = {name: part[1] for name, part in parts.items()}
                    if "fa512" not in str(row["kernels"]["fa512"]):
                        wrong.append(f"{batch} × {length}: the kernel is not ours: {row['kernels']['fa512']}")
    require(not wrong, wrong)
    return {"rows": rows}


def bert_base(run):
    """12 layers, 12 heads of 64, random weights."""
    return measure_models(run, 768, 12, 2 if run.dry else 12, 1.0)


def bert_base_bfloat16(run):
    return measure_models(run, 768, 12, 2 if run.dry else 12, 0.5, (16, 64), torch.bfloat16)


def minilm_stand_in(run):
    """6 layers, hidden 384, as MiniLM-L6, but with 6 heads of 64 instead of 12 heads of 32."""
    return measure_models(run, 384, 6, 6, 0.6)


def large_heads_fall_back(run):
    """Heads of 264 fall back to SDPA, with a warning."""
    import logging

    import fa512.transformers

    place, said = device(run.dry), []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("fa512.transformers").addHandler(handler)
    ids = torch.randint(0, 1000, (2, 64), device=place)
    with torch.inference_mode():
        models = [encoder(name, 2112, 8, 2, place) for name in ("fa512_flash", "sdpa")]
        own, theirs = (model(ids).last_hidden_state for model in models)
    require(torch.equal(own, theirs), "the outputs differ")
    require(any("head size of 264" in line for line in said), said)
    return {"said": said}


def save_encoder(folder, layers):
    """A sentence-transformers model with random weights, and its vocabulary."""
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(500))]
    vocabulary = pathlib.Path(folder, "vocab.txt")
    vocabulary.write_text("\n".join(words))
    BertTokenizer(str(vocabulary)).save_pretrained(folder)
    encoder("sdpa", 384, 6, layers, "cpu").save_pretrained(folder)


def documents(run):
    """The snippets of docs/use, given tensors where they need them and a model with random weights in place of a download."""
    folder = pathlib.Path(__file__).resolve().parents[3] / "docs/use"
    batch = dict(zip("qkv", inputs((1, 2, 24, 64), device(run.dry))))
    batch["used_q"] = batch["used_k"] = torch.tensor([24], dtype=torch.int32, device=device(run.dry))
    packed = dict(zip("qkv", inputs((24, 2, 64), device(run.dry))))
    packed["cu_seqlens"] = torch.tensor([0, 10, 24], dtype=torch.int32, device=device(run.dry))
    ran = {}
    run.found = {"ran": ran}
    with tempfile.TemporaryDirectory() as model:
        save_encoder(model, 2)
        for page in ("python.md", "pytorch.md"):
            snippets = re.findall(r"^```python\n(.*?)^```", (folder / page).read_text(), re.M | re.S)
            require(snippets, f"{page} has no snippets")
            for number, snippet in enumerate(snippets, 1):
                names = {"fa512": fa512, **(packed if "cu_seqlens" in snippet else batch)}
                text = snippet.replace("BAAI/bge-base-en-v1.5", model)
                exec(compile(text, f"snippet {number} of {page}", "exec"), names)
                if isinstance(names.get("out"), torch.Tensor):
                    require(bool(names["out"].isfinite().all()), f"{page}: {snippet}")
            ran[page] = len(snippets)
    return {"ran": ran}


def sentences(run):
    """sentence-transformers on texts of equal and of different lengths, against SDPA."""
    import time

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    place, rows = device(run.dry), []
    with tempfile.TemporaryDirectory() as folder:
        save_encoder(folder, 2 if run.dry else 6)
        made = {}
        for name in ("fa512_flash", "sdpa"):
            arguments = {"attn_implementation": name, "dtype": torch.float16}
            transformer = Transformer(folder, model_kwargs=arguments)
            pooling = Pooling(transformer.get_embedding_dimension())
            made[name] = SentenceTransformer(modules=[transformer, pooling], device=place)
        for kind, lengths in {"equal": [126] * 64, "different": [8 + 7 * (number % 16) for number in range(64)]}.items():
            lengths = lengths[:4] if run.dry else lengths
            texts = [" ".join(f"w{(number * 31 + place_) % 500}" for place_ in range(count)) for number, count in enumerate(lengths)]
            found, times = {}, {name: [] for name in made}
            for _ in range(2 if run.dry else 12):
                for name, model in made.items():
                    begun = time.perf_counter()
                    found[name] = model.encode(texts, batch_size=64, convert_to_tensor=True)
                    synchronize()
                    times[name].append(1000 * (time.perf_counter() - begun))
            difference = require_close(found["fa512_flash"], found["sdpa"], f"texts of {kind} lengths", 3e-2, 2e-2)
            medians = {name: sorted(one)[len(one) // 2] for name, one in times.items()}
            rows.append({"lengths": kind, "texts": len(texts), "milliseconds": medians, "difference": difference})
    return {"rows": rows}
