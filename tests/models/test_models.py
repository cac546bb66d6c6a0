"""Real models: each is captured as one graph, with eager's result."""

from __future__ import annotations

import cProfile
from collections.abc import Callable

import pytest
import torch

import nbcompile
from benchmarks import models
from tests.models.architectures import MORE

pytestmark = pytest.mark.usefixtures("nothing_compiled")

FEW = ("gpt2", "llama", "t5", "vit", "resnet", "clip")
TOLERANCE = 2e-3


def error(model: models.Model) -> float:
    """The error of the compiled model against eager mode; an exception if it is not one graph."""
    module, inputs = models.make(model)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = module(**inputs)
        torch.manual_seed(0)
        result = nbcompile.compile(module, backend="eager", fullgraph=True)(**inputs)
    assert type(result) is type(expected)
    return models.relative_error(result, expected)


@pytest.mark.parametrize("name", FEW)
def test_a_model_is_one_graph(name: str) -> None:
    """Encoders, decoders, both, and vision models have no break, and eager's values."""
    assert error(models.MODELS[name]) <= TOLERANCE


LATER = [name for name in {**models.MODELS, **MORE} if name not in FEW]


@pytest.mark.slow
@pytest.mark.parametrize("name", LATER)
def test_more_models_are_one_graph(name: str) -> None:
    """The other models that torch.compile captures as one graph are one graph here, too."""
    assert error({**models.MODELS, **MORE}[name]) <= TOLERANCE


def test_a_model_learns() -> None:
    """BERT's captured graph has eager's gradients."""
    module, inputs = models.make(models.MODELS["bert"])
    expected = models.gradients(module, module(**inputs))
    found = models.gradients(module, nbcompile.compile(module, backend="eager", fullgraph=True)(**inputs))
    assert models.relative_error(found, expected) <= TOLERANCE


def calls_to_capture(layers: int) -> int:
    """The number of function calls to capture a model with this many layers."""
    config = {**models.MODELS["llama"].config, "num_hidden_layers": layers}
    module, inputs = models.make(models.Model("llama", models.words, config))
    profile = cProfile.Profile()

    def stop(graph: torch.fx.GraphModule, examples: list[object]) -> Callable[..., object]:
        profile.disable()
        return graph.forward

    profile.enable()
    try:
        nbcompile.compile(module, backend=stop)(**inputs)
    finally:
        profile.disable()
    return sum(each.callcount for each in profile.getstats())


def test_capture_grows_as_the_model_does() -> None:
    """The cost of capture is linear in the number of layers."""
    calls_to_capture(1)
    one, two, three = (calls_to_capture(layers) for layers in (1, 2, 3))
    assert (three - two) < 1.1 * (two - one)
