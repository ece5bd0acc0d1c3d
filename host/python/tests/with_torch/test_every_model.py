"""A sample of every_model.py: what is computed, handed over or refused, and never anything else."""

import unittest

import every_model

# One of each kind that went wrong once: biases and masks of their own, tables of attentions, cross-attention, packed texts, windows.
HARD = """
    aimv2.modeling_aimv2:Aimv2TextModel
    align.modeling_align:AlignTextModel
    bark.modeling_bark:BarkCausalModel
    bart.modeling_bart:BartModel
    bert.modeling_bert:BertModel
    big_bird.modeling_big_bird:BigBirdModel
    bloom.modeling_bloom:BloomModel
    clip.modeling_clip:CLIPModel
    convbert.modeling_convbert:ConvBertModel
    deepseek_v2.modeling_deepseek_v2:DeepseekV2Model
    doge.modeling_doge:DogeModel
    falcon.modeling_falcon:FalconModel
    gemma2.modeling_gemma2:Gemma2Model
    gemma3.modeling_gemma3:Gemma3TextModel
    gpt_neo.modeling_gpt_neo:GPTNeoModel
    gpt_oss.modeling_gpt_oss:GptOssModel
    llama.modeling_llama:LlamaModel
    llama4.modeling_llama4:Llama4TextModel
    modernbert.modeling_modernbert:ModernBertModel
    moshi.modeling_moshi:MoshiModel
    mpnet.modeling_mpnet:MPNetModel
    qwen2_vl.modeling_qwen2_vl:Qwen2VLModel
    t5.modeling_t5:T5EncoderModel
    t5.modeling_t5:T5Model
    xglm.modeling_xglm:XGLMModel
""".split()
SECONDS, SAMPLED = 60, 20


class EveryModel(unittest.TestCase):
    def test_hard_ones_and_a_sample_are_computed_handed_over_or_refused(self):
        names = every_model.classes()
        self.assertLessEqual(set(HARD), set(names))
        sample = every_model.sampled([name for name in names if name not in HARD], SAMPLED, seed=0)
        made = 0
        for record in every_model.records([*HARD, *sample], ["--no-compile"], SECONDS):
            made += "cases" in record
            bad = [case for case in record.get("cases", ()) if case[2] in every_model.BAD]
            with self.subTest(name=record["class"]):
                self.assertEqual(bad, [])
        self.assertGreaterEqual(made, 10)

    def test_wrong_attention_is_found(self):
        names = ["bert.modeling_bert:BertModel", "llama.modeling_llama:LlamaModel"]
        for wrong in ("uniform", "no mask"):
            for record in every_model.records(names, ["--no-compile", "--wrong", wrong]):
                verdicts = {case[2] for case in record["cases"] if case[:2] == ["right", "eval"]}
                with self.subTest(name=record["class"], wrong=wrong):
                    self.assertEqual(verdicts, {"WRONG"})

    def test_the_list_is_of_the_library(self):
        names = every_model.classes()
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 500)
