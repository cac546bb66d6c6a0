"""More architectures of ``transformers``, for the long sweep: each as small as its configuration lets it be.

Read next: tests/models/test_models.py
"""

from __future__ import annotations

import torch

from benchmarks.models import (
    DECODER,
    IMAGES,
    MODELS,
    STAGES,
    TINY,
    TWO_STACKS,
    WORDS,
    Inputs,
    Model,
    masked_words,
    pictures,
    two_texts,
    words,
)

SMALL_GPT = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
TWO_TEXTS = {**TWO_STACKS, "encoder_attention_heads": 4}
EXPERTS = {**DECODER, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SPEECH = {**TINY, "conv_dim": [16] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2}


def waves() -> Inputs:
    return {"input_values": torch.randn(2, 1600)}


ENCODERS = (
    "roberta albert electra mpnet camembert xlm-roberta deberta convbert ernie nystromformer roformer "
    "rembert megatron-bert layoutlm modernbert big_bird mra yoso fnet data2vec-text canine luke splinter"
)
DECODERS = (
    "gpt_neox bloom falcon mistral phi phi3 qwen2 qwen3 gemma gemma2 gemma3_text stablelm olmo olmo2 persimmon "
    "starcoder2 cohere cohere2 granite glm smollm3 bitnet llama4_text biogpt rwkv"
)
PAIRS = "bart mbart pegasus marian blenderbot plbart m2m_100 pegasus_x"
PICTURES = "deit beit dinov2 vit_mae ijepa dpt siglip_vision_model"
MORE = {
    **{kind: Model(kind, masked_words, TINY) for kind in ENCODERS.split()},
    **{kind: Model(kind, words, DECODER) for kind in DECODERS.split()},
    **{kind: Model(kind, two_texts, TWO_TEXTS) for kind in PAIRS.split()},
    **{kind: Model(kind, pictures, IMAGES) for kind in PICTURES.split()},
    **{kind: Model(kind, words, EXPERTS) for kind in ("qwen2_moe", "qwen3_moe", "olmoe")},
    **{kind: Model(kind, waves, SPEECH) for kind in ("wav2vec2", "hubert", "wavlm")},
    "distilbert": Model("distilbert", masked_words, {"vocab_size": WORDS, "dim": 32, "hidden_dim": 64, "n_layers": 2,
                                                     "n_heads": 4}),
    "openai-gpt": Model("openai-gpt", words, SMALL_GPT),
    "gpt_bigcode": Model("gpt_bigcode", words, SMALL_GPT),
    "ctrl": Model("ctrl", words, {**SMALL_GPT, "dff": 64}),
    "squeezebert": Model("squeezebert", masked_words, {**TINY, "embedding_size": 32}),
    "helium": Model("helium", words, {**DECODER, "head_dim": 8}),
    "yolos": Model("yolos", pictures, {**IMAGES, "image_size": [32, 32]}),
    "opt": Model("opt", words, {**TINY, "ffn_dim": 64, "word_embed_proj_dim": 32}),
    "xlnet": Model("xlnet", words, {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "gpt_neo": Model("gpt_neo", words, {**TINY, "num_layers": 2, "num_heads": 4, "window_size": 8,
                                        "attention_types": [[["global", "local"], 1]]}),
    "mamba2": Model("mamba2", words, {**TINY, "num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1,
                                      "chunk_size": 8}),
    "falcon_mamba": Model("falcon_mamba", words, {**TINY, "state_size": 8, "time_step_rank": 2}),
    "segformer": Model("segformer", pictures, {**STAGES, "num_attention_heads": [1, 2, 2, 4]}),
    "regnet": Model("regnet", pictures, {**STAGES, "embedding_size": 8, "groups_width": 8}),
    "poolformer": Model("poolformer", pictures, STAGES),
}  # fmt: skip
assert not MORE.keys() & MODELS.keys()
