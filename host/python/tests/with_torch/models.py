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


def save_for_sentences(folder):
    """A model and its words, as sentence-transformers loads them."""
    from transformers import BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "short", "text", "and", "another", "one"]
    vocabulary = pathlib.Path(folder, "vocab.txt")
    vocabulary.write_text("\n".join(words))
    BertTokenizer(str(vocabulary)).save_pretrained(folder)
    model("sdpa").save_pretrained(folder)
