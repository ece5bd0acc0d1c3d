"""Models with random weights, small enough for the CPU."""

import pathlib

import torch


def config(heads=2, **more):
    from transformers import BertConfig

    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 64, "vocab_size": 50}
    return BertConfig(num_attention_heads=heads, **{**sizes, **more})


def model(attention, dtype=torch.float16, **more):
    from transformers import BertModel

    torch.manual_seed(0)
    made = BertModel._from_config(config(**more), attn_implementation=attention, dtype=dtype)
    return made.eval()


def tokens(batch=2, length=12):
    torch.manual_seed(1)
    return torch.randint(5, 50, (batch, length))


def compare_with_sdpa(mask=None, **more):
    """Compares a model by fa512 with one by SDPA, where there is no padding."""
    ids = tokens()
    with torch.no_grad():
        own = model("fa512_flash", **more)(ids, attention_mask=mask).last_hidden_state
        sdpa = model("sdpa", **more)(ids, attention_mask=mask).last_hidden_state
    keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    torch.testing.assert_close(own[keep], sdpa[keep], atol=2e-2, rtol=2e-2)


def compare_packed(attention="fa512_flash", **more):
    """Compares a model on two sequences of 5 and 7 tokens, packed, with SDPA on each by itself."""
    lengths = torch.tensor([0, 5, 12], dtype=torch.int32)
    ids, positions = tokens(1), torch.tensor([[*range(5), *range(7)]])
    sequences = {"cu_seq_lens_q": lengths, "cu_seq_lens_k": lengths.clone(), "max_length_q": 7, "max_length_k": 7}
    with torch.no_grad():
        own = model(attention, **more)(ids, position_ids=positions, **sequences).last_hidden_state
        apart = [model("sdpa", **more)(part).last_hidden_state for part in (ids[:, :5], ids[:, 5:])]
    torch.testing.assert_close(own, torch.cat(apart, dim=1), atol=2e-2, rtol=2e-2)


def save_for_sentences(folder):
    """A model and its words, as sentence-transformers loads them."""
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "short", "text", "and", "another", "one"]
    vocabulary = pathlib.Path(folder, "vocab.txt")
    vocabulary.write_text("\n".join(words))
    BertTokenizer(str(vocabulary)).save_pretrained(folder)
    model("sdpa").save_pretrained(folder)
