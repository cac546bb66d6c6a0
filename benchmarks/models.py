"""Architectures of ``transformers`` from small random configurations, by name: nothing is downloaded.

    make("bert")  ->  (module, {"input_ids": ..., "attention_mask": ...})

In torch: benchmarks/dynamo/huggingface.py of its repository. Read next: benchmarks/capture.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

Inputs = dict[str, torch.Tensor]
WORDS = 100
TINY: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
DECODER = {**TINY, "num_key_value_heads": 2}
TWO_STACKS: dict[str, Any] = {
    "vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip
IMAGES = {**TINY, "image_size": 32, "patch_size": 8}
STAGES: dict[str, Any] = {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]}
SWIN: dict[str, Any] = {
    "image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1, 1], "num_heads": [2, 2, 4], "window_size": 2,
}  # fmt: skip


def ids(length: int = 16) -> torch.Tensor:
    return torch.randint(4, WORDS, (2, length))


def words() -> Inputs:
    return {"input_ids": ids()}


def masked_words() -> Inputs:
    return {"input_ids": ids(), "attention_mask": torch.ones(2, 16, dtype=torch.long)}


def two_texts() -> Inputs:
    return {"input_ids": ids(), "decoder_input_ids": ids(8)}


def pictures() -> Inputs:
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def captioned_pictures() -> Inputs:
    return {**words(), **pictures()}


def sound() -> Inputs:
    return {"input_features": torch.randn(2, 16, 64), "decoder_input_ids": ids(8)}


@dataclass(frozen=True, slots=True)
class Model:
    """One architecture: transformers' name of it, its configuration, its inputs."""

    kind: str
    inputs: Callable[[], Inputs]
    config: dict[str, Any] = field(default_factory=dict)


MODELS = {
    each.kind: each
    for each in (
        Model("bert", masked_words, TINY),
        Model("gpt2", words, {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
        Model("llama", words, DECODER),
        Model("mixtral", words, {**DECODER, "num_local_experts": 4}),
        Model("t5", two_texts, {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
                                "num_heads": 4, "decoder_start_token_id": 1}),
        Model("vit", pictures, IMAGES),
        Model("swin", pictures, SWIN),
        Model("resnet", pictures, {"embedding_size": 8, **STAGES}),
        Model("whisper", sound, {**TWO_STACKS, "num_mel_bins": 16, "max_source_positions": 32,
                                 "max_target_positions": 32}),
        Model("clip", captioned_pictures, {"text_config": TINY, "vision_config": IMAGES, "projection_dim": 16}),
        Model("deberta-v2", masked_words, TINY),
        Model("mamba", words, {**TINY, "state_size": 8, "time_step_rank": 2}),
    )
}  # fmt: skip
LEARNING = ("bert", "gpt2", "llama", "vit")
"""Those of which the gradients are compared too."""


def make(model: Model) -> tuple[torch.nn.Module, Inputs]:
    """The module in evaluation mode, with weights that are the same each time, and its inputs."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model.kind, **model.config)
    return transformers.AutoModel.from_config(config).eval(), model.inputs()


def tensors(value: object) -> list[torch.Tensor]:
    """Every tensor of a model's output, in order."""
    match value:
        case torch.Tensor():
            return [value]
        case dict():
            return [each for part in value.values() for each in tensors(part)]
        case list() | tuple():
            return [each for part in value for each in tensors(part)]
    return []


def relative_error(value: object, expected: object) -> float:
    """The greatest difference between two outputs, relative to the greatest value of its tensor."""
    pairs = list(zip(tensors(value), tensors(expected), strict=True))
    return max(_difference(ours, theirs) for ours, theirs in pairs) if pairs else float("inf")


def _difference(value: torch.Tensor, expected: torch.Tensor) -> float:
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return float("inf")
    if not value.numel():
        return 0.0
    scale = expected.detach().double().abs().max().clamp(min=1e-6)
    return float((value.detach().double() - expected.detach().double()).abs().max() / scale)


def gradients(module: torch.nn.Module, output: object) -> list[torch.Tensor]:
    """The gradients of the parameters, of the sum of all that the module returned."""
    parameters = [each for each in module.parameters() if each.requires_grad]
    total = torch.stack([each.float().sum() for each in tensors(output) if each.requires_grad]).sum()
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    return [each for each in found if each is not None]
