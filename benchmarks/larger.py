"""The twelve models at a second size: wider, over more words and more of a picture.

    SIZES["small"]["bert"], SIZES["larger"]["bert"]

The small ones show what a call costs, these what kernels cost. Mamba's layers are
loops over the words, which a graph holds as many times: it gets wider only.

Read next: benchmarks/running.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.models import MODELS, WORDS, Inputs, Model

LENGTH, WIDTH, BATCH = 128, 256, 2
WIDE: dict[str, Any] = {
    "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH, "num_attention_heads": 8,
    "max_position_embeddings": 2 * LENGTH,
}  # fmt: skip
STACKS: dict[str, Any] = {
    "d_model": WIDTH, "encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH, "encoder_attention_heads": 8,
    "decoder_attention_heads": 8, "max_position_embeddings": 2 * LENGTH, "max_source_positions": LENGTH,
    "max_target_positions": LENGTH,
}  # fmt: skip
PICTURES = {**WIDE, "image_size": 96}


def ids(length: int = LENGTH, batch: int = BATCH) -> torch.Tensor:
    return torch.randint(4, WORDS, (batch, length))


def words() -> Inputs:
    return {"input_ids": ids()}


def masked_words() -> Inputs:
    return {"input_ids": ids(), "attention_mask": torch.ones(BATCH, LENGTH, dtype=torch.long)}


def two_texts() -> Inputs:
    return {"input_ids": ids(), "decoder_input_ids": ids(LENGTH // 2)}


def pictures(side: int = 96) -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, side, side)}


def captioned_pictures() -> Inputs:
    return {**words(), **pictures()}


def sound() -> Inputs:
    return {"input_features": torch.randn(BATCH, 16, 2 * LENGTH), "decoder_input_ids": ids(LENGTH // 2)}


def _larger(kind: str, inputs: Callable[[], Inputs], **config: Any) -> Model:
    model = MODELS[kind]
    return dataclasses.replace(model, inputs=inputs, config={**model.config, **config})


LARGER = {
    each.kind: each
    for each in (
        _larger("bert", masked_words, **WIDE),
        _larger("gpt2", words, n_embd=WIDTH, n_head=8, n_positions=2 * LENGTH),
        _larger("llama", words, **WIDE, num_key_value_heads=4),
        _larger("mixtral", words, **WIDE, num_key_value_heads=4),
        _larger("t5", two_texts, d_model=WIDTH, d_kv=32, d_ff=4 * WIDTH, num_heads=8),
        _larger("vit", pictures, **PICTURES),
        _larger("swin", lambda: pictures(64), image_size=64, embed_dim=64, num_heads=[2, 4, 8], window_size=4),
        _larger("resnet", lambda: pictures(64), embedding_size=32, hidden_sizes=[32, 64, 128, 256]),
        _larger("whisper", sound, **STACKS),
        _larger("clip", captioned_pictures, text_config={**MODELS["clip"].config["text_config"], **WIDE},
                vision_config={**MODELS["clip"].config["vision_config"], **PICTURES}, projection_dim=128),
        _larger("deberta-v2", masked_words, **WIDE),
        _larger("mamba", lambda: {"input_ids": ids(16, 4)}, hidden_size=WIDTH, state_size=16, time_step_rank=16),
    )
}  # fmt: skip
SIZES = {"small": MODELS, "larger": LARGER}
