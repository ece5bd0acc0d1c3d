"""Model classes of transformers, found and made tiny with random weights by one recipe, and what they are called with."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import itertools
import pathlib
import re
import warnings

import torch

VOCABULARY, LENGTH, BATCH = 60, 12, 3
# Of sound, for each of the LENGTH places that a mask speaks of.
SAMPLES = 800
# Ordinary tokens; special ones have higher numbers, or are among the first five.
FIRST_TOKEN, LAST_TOKEN = 5, 40
HEADS, SHARED_HEADS, HEAD_SIZE = 4, 2, 16
HIDDEN = HEADS * HEAD_SIZE
MOST_PARAMETERS = 30_000_000
# Verdicts that there must be none of.
BAD = ("WRONG", "ERROR")


# The list of classes.


def classes():
    """`folder.file:Class` of every base model of transformers: what its mappings name, and every other class named `…Model`."""
    import transformers
    from transformers.models.auto import modeling_auto

    named = set()
    for value in modeling_auto.MODEL_MAPPING_NAMES.values():
        named.update([value] if isinstance(value, str) else value)
    for value in modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES.values():
        named.update([value] if isinstance(value, str) else value)
    found = []
    for path in sorted((pathlib.Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")):
        bases = dict(re.findall(r"^class (\w+)\(([\w., ]+)\):", path.read_text(), re.MULTILINE))
        for name in bases:
            ours = name in named or (name.endswith("Model") and not name.endswith("PreTrainedModel"))
            if ours and "nn.Module" not in bases[name] and name != "AutoModel":
                found.append(f"{path.parent.name}.{path.stem}:{name}")
    return found


def load(name):
    file, name = name.split(":")
    return getattr(importlib.import_module(f"transformers.models.{file}"), name)


# Tiny configurations. The first line whose pattern is in the name of a number decides; a function gets the default.


def at_most(most):
    return lambda default: min(default, most)


def as_it_is(default):
    return default


SIZES = [
    (r"type_vocab_size|_multiple|temporal|_ratio|kernel|stride|merge_size|groups$|num_conv_pos|label|reduction_factor", as_it_is),
    (r"(key_value|kv|shared)_?(n_)?heads?$|n_head_kv|kv_n_heads", SHARED_HEADS),
    (r"linear_num_key_heads|linear_num_value_heads", HEADS),
    (r"mamba_n_heads|mamba_num_heads", 2 * HEADS),
    (r"^rotary_dim$", HEAD_SIZE // 2),
    (r"(heads|n_head|num_head)$", HEADS),
    (r"(head_dim|head_size|d_kv|d_head|dim_head|lora_rank)$", HEAD_SIZE),
    (r"(^|_)(layers|layer|num_blocks|depth|n_blocks)$|^num_hidden_layers$", at_most(2)),
    (r"vocab_size|vocabulary_size", VOCABULARY),
    (r"max_\w*position|n_positions|n_ctx|max_seq|context_length|max_length|num_position_embeddings", at_most(64)),
    (r"image_size$|input_size$|spec_size", at_most(32)),
    (r"patch_size$", at_most(8)),
    (r"mel_bins|feature_size|input_feat_per_channel", at_most(16)),
    (r"per_tok|top_?k$|moe_k$", at_most(2)),
    (r"topk_group|n_group$|first_k_dense|moe_layer_start", at_most(1)),
    (r"experts$", at_most(4)),
    (r"sliding_window$|attention_window|local_attention", at_most(4)),
    (r"^block_size$", at_most(64)),
    (r"block_size|chunk_size|chunk_length|window_size", at_most(8)),
    (r"num_frames|num_queries|query_tokens|num_latents|codebook|codevector", at_most(8)),
    (r"d_model|n_embd|d_ff|n_inner|ffn|size|dim|channels|units|width|features|filters|hidden|planes|_rank", at_most(HIDDEN)),
]


def shrunk(name, default, seen):
    """The value of a number of a configuration; `seen` counts special tokens."""
    if re.search(r"_token_ids?$|_token_index$|_id$", name):
        if default < FIRST_TOKEN:
            return default
        seen.append(name)
        return VOCABULARY - len(seen)
    for pattern, value in SIZES:
        if re.search(pattern, name):
            return value(default) if callable(value) else value
    return default


def shrunk_tuple(name, default):
    numbers = all(type(x) is int for x in default)
    if not numbers or not default:
        return default
    if re.search(r"depths|layers|num_blocks|repeats", name):
        return type(default)(min(x, 2) for x in default)
    if re.search(r"heads", name):
        return type(default)(min(x, HEADS) for x in default)
    if re.search(r"sizes|dims?$|channels|conv_dim|features", name):
        return type(default)(min(x, HIDDEN) for x in default)
    if re.search(r"image_size|input_size", name):
        return type(default)(min(x, 32) for x in default)
    if re.search(r"patch_size", name):
        return type(default)(min(x, 8) for x in default)
    return default


def layer_types(default):
    """One layer of each kind, two at least."""
    kinds = list(dict.fromkeys(default))
    return (kinds * 2)[: max(2, len(kinds))] if len(kinds) < 5 else kinds


def tiny(config_class, keep=None, seen=None, **more):
    """A configuration with every size small. Fields whose names match `keep` are left alone."""
    from transformers import PreTrainedConfig

    default = config_class()
    seen = [] if seen is None else seen
    common = {field.name for field in dataclasses.fields(PreTrainedConfig)} - {"pad_token_id", "bos_token_id", "eos_token_id"}
    changes = {}
    for field in dataclasses.fields(config_class):
        name = field.name
        try:
            value = getattr(default, name, None)
        except Exception:
            continue
        if name in common or name.startswith("_") or (keep and re.search(keep, name)):
            continue
        if isinstance(value, PreTrainedConfig):
            changes[name] = tiny(type(value), keep, seen, **more)
        elif type(value) is int:
            changes[name] = shrunk(name, value, seen)
        elif value is None and name in ("head_dim", "num_key_value_heads"):
            changes[name] = HEAD_SIZE if name == "head_dim" else HEADS
        elif type(value) is float and re.search("dropout|drop_rate|pdrop|layerdrop|drop_path", name):
            changes[name] = 0.0
        elif name in ("layer_types", "layers_block_type") and isinstance(value, (list, tuple)) and value:
            changes[name] = layer_types(value)
            changes["num_hidden_layers"] = len(changes[name])
        elif name == "mlp_layer_types" and isinstance(value, (list, tuple)):
            changes[name] = None
        elif isinstance(value, (list, tuple)):
            changes[name] = shrunk_tuple(name, value)
        elif isinstance(value, dict) and name in ("rope_parameters", "rope_scaling"):
            changes[name] = tiny_rope(value)
    if "layer_types" in changes and "num_hidden_layers" in changes:
        changes["num_hidden_layers"] = len(changes["layer_types"])
    shared = "num_key_value_heads"
    if shared in changes and getattr(default, shared) == getattr(default, "num_attention_heads", None):
        changes[shared] = HEADS
    fields = {field.name for field in dataclasses.fields(config_class)}
    besides = copy.deepcopy({**more, **BESIDES.get(config_class.__name__, {})})
    changes.update((name, value) for name, value in besides.items() if name in fields)
    return config_class(**changes)


def tiny_rope(value):
    changed = dict(value)
    for name, of in value.items():
        if isinstance(of, dict):
            changed[name] = tiny_rope(of)
        elif name == "mrope_section":
            changed[name] = [HEAD_SIZE // 2 - 4, 2, 2]
    return changed


ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# Tried one after the other: a pattern of fields that are left alone, and fields that are set.
RECIPES = [
    (None, {}),
    (None, {"rope_parameters": ROPE}),
    (None, {"rope_parameters": {**ROPE, "mrope_section": [4, 2, 2]}}),
    (None, {"rope_parameters": {**ROPE, "mrope_section": [2, 1, 1]}}),
    (r"^(attn|ffn)_config$", {}),
    (r"channels|kernel|stride|conv|codebook|patch|image|depth|heads|hidden_sizes|embed_dim", {}),
    (r"layers?$|layer_types|depth", {}),
]

# Fields without a default, or with one that fits no small model.
_SERIES = {"prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2], "num_time_features": 1}
BESIDES = {
    "ChameleonConfig": {"vocabulary_map": {"<image>": VOCABULARY - 1}},
    "Emu3Config": {"vocabulary_map": {"<image>": VOCABULARY - 1}},
    "DiffusionGemmaTextConfig": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": HIDDEN},
    "GraniteMoeHybridConfig": {"layer_types": ["mamba", "attention"]},
    "BambaConfig": {"attn_layer_indices": [1]},
    "FalconH1Config": {"mamba_d_ssm": 2 * HIDDEN},
    "AutoformerConfig": _SERIES,
    "InformerConfig": _SERIES,
    "TimeSeriesTransformerConfig": _SERIES,
    "DeepseekV2Config": {"num_experts_per_tok": 2, "n_routed_experts": 4},
    "DeepseekOcr2TextConfig": {"num_experts_per_tok": 2, "n_routed_experts": 4, "mlp_layer_types": ["dense", "sparse"]},
    "Dots1Config": {"num_experts_per_tok": 2, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1},
    "LiltConfig": {"hidden_size": 96, "num_attention_heads": 6},
    "LongcatFlashConfig": {"qk_head_dim": 2 * HEAD_SIZE, "head_dim": HEAD_SIZE},
    "EsmConfig": {"vocab_size": VOCABULARY, "mask_token_id": 4, "pad_token_id": 1},
    "ReformerConfig": {"axial_pos_embds_dim": [32, 32], "axial_pos_shape": [4, 16]},
    "Mamba2Config": {"num_heads": 2 * HEADS},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"]},
    "Glm5NextTextConfig": {"index_topk": 16},
    "Gemma3nTextConfig": {"intermediate_size": [HIDDEN] * 2, "activation_sparsity_pattern": [0.0] * 2, "num_kv_shared_layers": 0},
    "FunAsrNanoAdaptorConfig": {"intermediate_size": HEAD_SIZE},
    "DonutSwinConfig": {"num_heads": [2, 4, 8, 16], "embed_dim": 32},
    "MaskFormerSwinConfig": {"num_heads": [2, 4, 8, 16], "embed_dim": 32},
}


def composed(model_class):
    """The configuration of a model that is made of two others; None for others."""
    import transformers as t

    text, image = tiny(t.BertConfig), tiny(t.ViTConfig)
    decoder = tiny(t.BertConfig, is_decoder=True, add_cross_attention=True)
    name = model_class.__name__
    if name == "EncoderDecoderModel":
        return t.EncoderDecoderConfig.from_encoder_decoder_configs(text, decoder)
    if name == "VisionEncoderDecoderModel":
        return t.VisionEncoderDecoderConfig.from_encoder_decoder_configs(image, decoder)
    if name == "SpeechEncoderDecoderModel":
        return t.SpeechEncoderDecoderConfig.from_encoder_decoder_configs(tiny(t.Wav2Vec2Config), decoder)
    if name == "VisionTextDualEncoderModel":
        return t.VisionTextDualEncoderConfig.from_vision_text_configs(image, text)
    return None


# Weights.


def randomize(model, seed=0):
    """Weights with which attention matters: scores of a spread of about two, and no residual branch that is nearly nothing."""
    generator = torch.Generator().manual_seed(seed)

    def normal(tensor, spread):
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * spread)

    with torch.no_grad():
        for module in model.modules():
            for name, tensor in module.named_parameters(recurse=False):
                if not tensor.is_floating_point():
                    continue
                kind = type(module).__name__.lower()
                if "norm" in kind:
                    continue
                if isinstance(module, torch.nn.Embedding):
                    # The padding's, too: some models have no gradient where everything is zero.
                    normal(tensor, 1.0)
                elif tensor.dim() >= 2 and name.startswith("weight"):
                    fan = tensor.shape[0] if kind == "conv1d" and not isinstance(module, torch.nn.Conv1d) else tensor[0].numel()
                    normal(tensor, 1.5 * fan**-0.5)
                elif name == "bias" and tensor.dim() == 1:
                    normal(tensor, 0.1)
                elif tensor.numel() and (tensor == tensor.flatten()[0]).all() and 0 < tensor.flatten()[0].abs() < 0.05:
                    tensor.fill_(1.0)
                elif tensor.dim() >= 2 and tensor.std() < 0.05:
                    normal(tensor, 0.5)
        for tensor in itertools.chain(model.parameters(), model.buffers()):
            # Values that float16 has, so that both types mean the same model.
            if tensor.is_floating_point() and tensor.dtype == torch.float32:
                tensor.copy_(tensor.half().float().nan_to_num(0.0, 6e4, -6e4))


def size(model_class, config):
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = model_class._from_config(copy.deepcopy(config), attn_implementation="eager")
    return sum(tensor.numel() for tensor in made.parameters())


def build(model_class, config, attention, dtype, like=None):
    """A model; with the weights and buffers of `like`, if given."""
    torch.manual_seed(0)
    made = model_class._from_config(copy.deepcopy(config), attn_implementation=attention, dtype=dtype).eval()
    if like is None:
        return made
    theirs = dict(itertools.chain(like.named_parameters(remove_duplicate=False), like.named_buffers(remove_duplicate=False)))
    with torch.no_grad():
        for name, tensor in itertools.chain(made.named_parameters(), made.named_buffers()):
            if name in theirs and tensor.shape == theirs[name].shape:
                tensor.copy_(theirs[name])
    return made


# Inputs.

MASKS = {
    "right": [[0, 12], [0, 7], [0, 5]],
    "left": [[0, 12], [5, 12], [7, 12]],
    "gaps": [[0, 12], [0, 3, 5, 12], [1, 4, 8, 11]],
    "an empty row": [[0, 12], [0, 0], [0, 7]],
    "one token": [[0, 12], [0, 1], [0, 6]],
    "alone": [[0, 7]],
    "alone, left": [[5, 12]],
}


def mask_of(spans, length=LENGTH):
    """[batch, length] of ones and zeros: pairs of numbers begin and end the tokens of a row."""
    made = torch.zeros(len(spans), length, dtype=torch.long)
    for row, bounds in zip(made, spans):
        for begin, end in zip(bounds[::2], bounds[1::2]):
            row[begin:end] = 1
    return made


def tokens(batch, length, seed, mask=None, padding=None):
    ids = torch.randint(FIRST_TOKEN, LAST_TOKEN, (batch, length), generator=torch.Generator().manual_seed(seed))
    if mask is not None and padding is not None:
        ids = ids.masked_fill(mask == 0, padding)
    return ids


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).half().float()


def field(config, *names, default=None):
    """The first of these fields that the configuration or one of its parts has."""
    parts = [config, *(getattr(config, name) for name in getattr(config, "sub_configs", {}) if getattr(config, name, None))]
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


class Inputs:
    """What a model is called with. `kind` is which tensors it gets besides text."""

    KINDS = (
        "text",
        "text with boxes",
        "image",
        "text and image",
        "features",
        "features, masked",
        "samples",
        "features and text",
        "samples and text",
        "patches",
        "states",
        "states and an encoder's",
        "spectrum",
        "series",
        "video",
    )

    def __init__(self, model_class, config, kind):
        self.config, self.kind = config, kind
        parameters = inspect.signature(model_class.forward).parameters
        self.names = set(parameters)
        self.takes_more = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        padding = field(config, "pad_token_id")
        self.padding = padding if isinstance(padding, int) and 0 <= padding < VOCABULARY else 3
        self.is_text = "text" in kind and "input_ids" in self.names
        self.has_decoder = "decoder_input_ids" in self.names
        self.mask_name = next((name for name in ("attention_mask", "padding_mask") if name in self.names), None)
        self.per_token = SAMPLES if kind.startswith("samples") and not self.is_text else 1

    @classmethod
    def kinds(cls, model_class):
        """The kinds that the arguments of `forward` allow."""
        names = set(inspect.signature(model_class.forward).parameters)
        for kind in cls.KINDS:
            wanted = [
                "text" in kind and {"input_ids"},
                "boxes" in kind and {"bbox"},
                "image" in kind and {"pixel_values"},
                "features" in kind and {"input_features", "input_values"},
                "masked" in kind and {"input_features_mask"},
                "samples" in kind and {"input_values"},
                kind == "patches" and {"grid_thw"},
                kind.startswith("states") and {"inputs_embeds", "hidden_states", "query_embeds"},
                "encoder" in kind and {"encoder_hidden_states"},
                kind == "spectrum" and {"input_features"},
                kind == "series" and {"past_values"},
                kind == "video" and {"pixel_values_videos", "pixel_values"},
            ]
            if all(not one or one & names for one in wanted):
                yield kind

    def image(self, batch, seed):
        size = field(self.config, "image_size", "input_size", default=32)
        height, width = (size, size) if isinstance(size, int) else tuple(size)[:2]
        return normal(batch, field(self.config, "num_channels", "in_channels", "in_chans", default=3), height, width, seed=seed)

    def make(self, batch=BATCH, mask=None, seed=0, length=LENGTH, decoder_length=None):
        """The arguments of a call."""
        made, config = {}, self.config
        if mask is not None:
            batch, length = mask.shape
        if self.is_text:
            made["input_ids"] = tokens(batch, length, seed, mask, self.padding)
            if "boxes" in self.kind:
                made["bbox"] = torch.tensor([1, 2, 10, 12]).expand(batch, length, 4).contiguous()
        if "image" in self.kind:
            made["pixel_values"] = self.image(batch, seed)
        elif self.kind == "video":
            name = "pixel_values_videos" if "pixel_values_videos" in self.names else "pixel_values"
            made[name] = torch.stack([self.image(batch, seed + n) for n in range(field(config, "num_frames", default=4))], dim=1)
        elif self.kind.startswith("features"):
            bins = field(config, "num_mel_bins", "input_feat_per_channel", "feature_size", "feature_projection_input_dim", default=16)
            whisper = field(config, "max_source_positions")
            if "input_features" in self.names and whisper and "conv_kernel_sizes" not in config.to_dict():
                made["input_features"] = normal(batch, bins, 2 * whisper, seed=seed)
                if "masked" in self.kind:
                    made["input_features_mask"] = torch.ones(batch, 2 * whisper, dtype=torch.long)
            else:
                name = "input_features" if "input_features" in self.names else "input_values"
                made[name] = normal(batch, field(config, "max_length", default=length), bins, seed=seed)
        elif self.kind.startswith("samples"):
            made["input_values"] = normal(batch, length * SAMPLES, seed=seed)
        elif self.kind == "patches":
            grid = torch.tensor([[1, 4, 4], [1, 2, 4], [1, 4, 6]])
            channels = field(config, "num_channels", "in_channels", "in_chans", default=3)
            width = channels * field(config, "temporal_patch_size", default=1) * field(config, "patch_size", default=8) ** 2
            name = "hidden_states" if "hidden_states" in self.names else "pixel_values"
            made.update({name: normal(int(grid.prod(1).sum()), width, seed=seed), "grid_thw": grid})
        elif self.kind == "spectrum":
            made["input_features"] = normal(batch, field(config, "num_mel_bins", "feature_size", default=16), 64, seed=seed)
            if "input_features_mask" in self.names:
                made["input_features_mask"] = torch.ones(batch, 64, dtype=torch.long)
        elif self.kind == "series":
            past, future = field(config, "context_length", default=12), field(config, "prediction_length", default=4)
            if "past_time_features" in self.names:
                past += max(field(config, "lags_sequence", default=[0]))
                times = {"past_time_features": (past, 1), "future_values": (future,), "future_time_features": (future, 1)}
                made.update((name, normal(batch, *shape, seed=seed)) for name, shape in times.items())
                made.update(past_values=normal(batch, past, seed=seed), past_observed_mask=torch.ones(batch, past))
            else:
                made["past_values"] = normal(batch, past, field(config, "num_input_channels", default=1), seed=seed)
        elif self.kind.startswith("states"):
            name = next(name for name in ("inputs_embeds", "hidden_states", "query_embeds") if name in self.names)
            made[name] = normal(batch, length, field(config, "hidden_size", "d_model", default=HIDDEN), seed=seed)
            if "encoder" in self.kind:
                width = field(config, "encoder_hidden_size", "hidden_size", default=HIDDEN)
                made["encoder_hidden_states"] = normal(batch, length, width, seed=seed + 2)
        if self.has_decoder:
            made["decoder_input_ids"] = tokens(batch, decoder_length or length, seed + 1)
        if mask is not None:
            made[self.mask_name] = mask.repeat_interleave(self.per_token, 1)
        return {name: value for name, value in made.items() if name in self.names or self.takes_more}
