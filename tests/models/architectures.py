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
    SWIN,
    TINY,
    TWO_STACKS,
    WORDS,
    Inputs,
    Model,
    ids,
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


def larger_pictures() -> Inputs:
    return {"pixel_values": torch.randn(1, 3, 64, 64)}


def films() -> Inputs:
    return {"pixel_values": torch.randn(1, 4, 3, 32, 32)}


def spectra() -> Inputs:
    return {"input_values": torch.randn(2, 32, 16)}


def series() -> Inputs:
    return {"inputs": torch.randn(2, 10, 16)}


def heard_texts() -> Inputs:
    return {"input_features": torch.randn(2, 32, 16), "decoder_input_ids": ids(8)}


def masked_captions() -> Inputs:
    return {**masked_words(), **pictures()}


HEADS = {**DECODER, "head_dim": 8}
CAPTIONED = {"text_config": TINY, "vision_config": IMAGES, "projection_dim": 16}
PYRAMID = {"image_size": 64, "hidden_sizes": [8, 16, 16, 16], "num_attention_heads": [1, 2, 2, 2],
           "depths": [1, 1, 1, 1]}  # fmt: skip
LARGER = {"image_size": 64, **STAGES}
DETECTING = {**TWO_STACKS, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None,
             "backbone_config": {"model_type": "resnet", "embedding_size": 8, **STAGES, "out_features": ["stage4"]},
             "num_queries": 5}  # fmt: skip
ROTARY_GPT = {**SMALL_GPT, "rotary_dim": 4}
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
    **{kind: Model(kind, words, HEADS) for kind in ("afmoe", "apertus", "arcee")},
    **{kind: Model(kind, masked_captions, CAPTIONED) for kind in ("blip", "siglip", "chinese_clip", "clipseg", "owlvit")},
    **{kind: Model(kind, larger_pictures, LARGER) for kind in ("convnext", "convnextv2")},
    **{kind: Model(kind, larger_pictures, PYRAMID) for kind in ("pvt", "pvt_v2")},
    **{kind: Model(kind, larger_pictures, DETECTING) for kind in ("detr", "conditional_detr")},
    **{kind: Model(kind, pictures, SWIN) for kind in ("swinv2", "donut-swin")},
    **{kind: Model(kind, words, ROTARY_GPT) for kind in ("gptj", "codegen")},
    "aimv2_vision_model": Model("aimv2_vision_model", pictures, IMAGES),
    "mpt": Model("mpt", words, {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "focalnet": Model("focalnet", larger_pictures, {**LARGER, "embed_dim": 8}),
    "levit": Model("levit", larger_pictures, {"image_size": 64, "hidden_sizes": [16, 32, 48], "depths": [1, 1, 1],
                                              "num_attention_heads": [2, 2, 2], "key_dim": [8, 8, 8]}),
    "mobilenet_v1": Model("mobilenet_v1", larger_pictures, {"image_size": 64, "depth_multiplier": 0.25}),
    "mobilenet_v2": Model("mobilenet_v2", larger_pictures, {"image_size": 64, "depth_multiplier": 0.35}),
    "mobilevit": Model("mobilevit", larger_pictures, {"image_size": 64, "hidden_sizes": [16, 24, 32],
                                                      "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32],
                                                      "num_attention_heads": 2}),
    "mobilevitv2": Model("mobilevitv2", larger_pictures, {"image_size": 64, "width_multiplier": 0.25}),
    "bit": Model("bit", larger_pictures, {"embedding_size": 8, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1],
                                          "num_groups": 2}),
    "glpn": Model("glpn", larger_pictures, {**STAGES, "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16}),
    "perceiver": Model("perceiver", series, {"d_model": 16, "d_latents": 32, "num_latents": 8, "num_blocks": 1,
                                             "num_self_attends_per_block": 2, "num_self_attention_heads": 4,
                                             "num_cross_attention_heads": 2}),
    "speech_to_text": Model("speech_to_text", heard_texts, {**TWO_STACKS, "input_feat_per_channel": 16,
                                                            "input_channels": 1, "conv_channels": 32,
                                                            "max_source_positions": 64, "max_target_positions": 64}),
    "audio-spectrogram-transformer": Model("audio-spectrogram-transformer", spectra,
                                           {**TINY, "max_length": 32, "num_mel_bins": 16, "patch_size": 8}),
    "wav2vec2-conformer": Model("wav2vec2-conformer", waves, SPEECH),
    "videomae": Model("videomae", films, {**IMAGES, "num_frames": 4, "tubelet_size": 2}),
    "vivit": Model("vivit", films, {**IMAGES, "num_frames": 4, "tubelet_size": [2, 8, 8]}),
    "t5gemma": Model("t5gemma", two_texts, {"encoder": HEADS, "decoder": {**HEADS, "cross_attention_hidden_size": 32},
                                            "vocab_size": WORDS}),
    "t5gemma2": Model("t5gemma2", two_texts, {"encoder": {"text_config": HEADS, "vision_config": IMAGES},
                                              "decoder": HEADS, "vocab_size": WORDS}),
}  # fmt: skip
assert not MORE.keys() & MODELS.keys()
