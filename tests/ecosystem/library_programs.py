"""Programs of libraries that torch.compile's users arrive with: one entry each, made from fresh when it is asked for.

    einops_rearrange    function, and the arguments of its calls

A library that is not installed leaves its programs out. In torch: nothing. Read next: tests/ecosystem/measure.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Made = tuple[Callable[..., Any], list[tuple[Any, ...]]]
PROGRAMS: dict[str, tuple[str, Callable[[], Made]]] = {}
"""The library and the maker of each program, by name."""


def of(library: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Enter a program of a library."""

    def enter(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS[make.__name__] = (library, make)
        return make

    return enter


def _images(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(0))


@of("einops")
def einops_patches() -> Made:
    """Rearrange, reduce, repeat and einsum on images of two sizes."""
    import einops

    def f(x):
        patches = einops.rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
        pooled = einops.reduce(patches, "b n d -> b d", "mean")
        spread = einops.repeat(pooled, "b d -> b n d", n=patches.shape[1])
        return einops.einsum(patches, spread, "b n d, b m d -> b n m")

    return f, [(_images(2, 3, 16, 16),), (_images(2, 3, 32, 32),), (_images(2, 3, 24, 24),)]


@of("einops")
def einops_layers() -> Made:
    """Rearrange and Reduce as modules."""
    from einops.layers.torch import Rearrange, Reduce

    torch.manual_seed(0)
    model = nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        nn.Linear(48, 32),
        nn.GELU(),
        Reduce("b n d -> b d", "max"),
    )
    return model, [(_images(2, 3, 16, 16),), (_images(2, 3, 16, 16),)]


@of("torchmetrics")
def torchmetrics_functional() -> Made:
    """Accuracy, F1 and a regression error without state."""
    from torchmetrics import functional

    def f(logits, target):
        accuracy = functional.classification.multiclass_accuracy(logits, target, 5, validate_args=False)
        f1 = functional.classification.multiclass_f1_score(logits, target, 5, validate_args=False)
        return accuracy + f1 + functional.mean_squared_error(logits[:, 0], target.float())

    target = torch.arange(16) % 5
    return f, [(_images(16, 5), target), (_images(16, 5), target)]


@of("torchmetrics")
def torchmetrics_update() -> Made:
    """A metric that keeps a state, updated in each step."""
    import torchmetrics

    metric = torchmetrics.MeanSquaredError()

    def f(x, y):
        prediction = x * 2
        metric.update(prediction, y)
        return metric.compute()

    return f, [(_images(16), torch.ones(16)), (_images(16) + 1, torch.ones(16)), (_images(16), torch.ones(16))]


@of("tensordict")
def tensordict_fields() -> Made:
    """Fields read and set, one shape of batch."""
    import tensordict

    def f(td):
        td = td.clone()
        td["c"] = td["a"] + td["b"]
        return td.select("c").apply(torch.sin)["c"]

    return f, [(tensordict.TensorDict({"a": _images(4, 3), "b": _images(4, 3)}, [4]),) for _ in range(3)]


@of("tensordict")
def tensordict_module() -> Made:
    """A module that reads and writes keys."""
    import tensordict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    torch.manual_seed(0)
    model = TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), ["a"], ["h"]), TensorDictModule(nn.Linear(4, 2), ["h"], ["out"])
    )
    return (lambda td: model(td)["out"]), [(tensordict.TensorDict({"a": _images(4, 3)}, [4]),) for _ in range(3)]


@of("torch_geometric")
def pyg_convolutions() -> Made:
    """Two convolutions over a graph, with as many edges in each call."""
    from torch_geometric.nn import GCNConv, SAGEConv

    torch.manual_seed(0)
    first, second = SAGEConv(4, 8), GCNConv(8, 3)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    return (lambda x, e: second(first(x, e).relu(), e)), [(_images(4, 4), edges), (_images(4, 4), edges)]


@of("diffusers")
def diffusers_scheduler() -> Made:
    """The step of a scheduler at three of its times."""
    from diffusers import DDIMScheduler

    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(5)

    def f(noise, time, sample):
        return scheduler.step(noise, time, sample).prev_sample

    return f, [(_images(1, 4, 8, 8), int(time), _images(1, 4, 8, 8)) for time in scheduler.timesteps[:3]]


@of("diffusers")
def diffusers_euler() -> Made:
    """The step of a scheduler that counts its steps."""
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler(num_train_timesteps=1000)
    scheduler.set_timesteps(200)  # more than are measured

    def f(noise, time, sample):
        return scheduler.step(noise, time, sample).prev_sample

    return f, [(_images(1, 4, 8, 8), time, _images(1, 4, 8, 8)) for time in scheduler.timesteps[:3]]


@of("peft")
def peft_lora() -> Made:
    """A LoRA adapter around the layers of a model."""
    import peft

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["0", "2"], r=2, lora_dropout=0.0))
    return adapted, [(_images(4, 8),), (_images(4, 8),)]


@of("kornia")
def kornia_filters() -> Made:
    """Filters and a change of colours."""
    import kornia

    def f(x):
        return kornia.filters.gaussian_blur2d(
            kornia.color.rgb_to_grayscale(x), (3, 3), (1.0, 1.0)
        ) + kornia.filters.sobel(x).mean(1, keepdim=True)

    return f, [(_images(2, 3, 16, 16),), (_images(2, 3, 16, 16),)]


@of("torchao")
def torchao_int8() -> Made:
    """A model whose weights were quantised to int8."""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    quantize_(model, Int8WeightOnlyConfig())
    return model, [(_images(4, 64),), (_images(4, 64),)]


@of("accelerate")
def accelerate_loop() -> Made:
    """A model that Accelerator prepared."""
    import accelerate

    torch.manual_seed(0)
    model = accelerate.Accelerator(cpu=True).prepare(nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
    return model, [(_images(4, 8),), (_images(4, 8),)]


@of("transformers")
def transformers_bert() -> Made:
    """A small encoder."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50
    )
    model = transformers.BertModel(config).eval()
    return (lambda ids: model(ids).last_hidden_state), [
        (torch.arange(16).reshape(2, 8),),
        (torch.arange(16).reshape(2, 8),),
    ]


@of("timm")
def timm_resnet() -> Made:
    """A small network for images."""
    import timm

    torch.manual_seed(0)
    return timm.create_model("resnet10t", pretrained=False).eval(), [(_images(1, 3, 64, 64),), (_images(1, 3, 64, 64),)]
