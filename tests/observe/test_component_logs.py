"""One line about each frame for a component; unsupported components of torch are reported once."""

from __future__ import annotations

import logging
import re

import pytest
import torch

from nbcompile.observe import torch_logs
from nbcompile.support import log_names
from tests.observe.test_artifact_logs import listening, listening_without_choice, run


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("component", "line"),
    [
        ("dynamo", r"f \(.*test_artifact_logs.py:\d+\): compiled, first call; \d+ nodes, \d+ guards, no breaks; .* s"),
        ("aot", r"AOTAutograd: joint graph of \d+ nodes, forward graph of \d+ nodes, backward graph of \d+ nodes"),
        ("inductor", r"backend inductor: \d+ buffers in \d+ kernels? \(.*\d+ cpp.*\)"),
    ],
)
def test_a_component_without_details(component, line):
    """``TORCH_LOGS=dynamo`` prints one line about each frame, and no artifact."""
    torch_logs._warned.clear()
    with listening(**{component: logging.INFO}) as said:
        run()
    ((_, text),) = said
    assert re.fullmatch(line, text), text


@pytest.mark.compiles
def test_all_components():
    """``TORCH_LOGS=all`` prints the lines of all three components, and no remark."""
    with listening(all=logging.INFO) as said:
        run()
    assert [text.partition(" ")[0] for _, text in said] == ["f", "AOTAutograd:", "backend"]


@pytest.mark.compiles
@pytest.mark.parametrize("name", sorted(log_names.TORCHS_COMPONENTS))
def test_a_component_of_which_nothing_is_printed(name, monkeypatch):
    """A component without a log here is reported in one line, once."""
    torch_logs._warned.clear()
    logs = torch._logging._internal  # set_logs has keywords for some components; TORCH_LOGS takes all
    modules = logs.log_registry.log_alias_to_log_qnames[name]
    monkeypatch.setattr(logs.log_state, "log_qname_to_level", dict.fromkeys(modules, logging.INFO))
    with listening_without_choice() as said:
        run(lambda x: x + 1, torch.ones(2), backend="eager")
        run(lambda x: x + 2, torch.ones(2), backend="eager")
    told = [text for _, text in said if "prints nothing" in text]
    assert told == [f"TORCH_LOGS={name} prints nothing of nbcompile: {log_names.TORCHS_COMPONENTS[name]}"]


def test_every_component_of_torch_is_decided():
    """Each component of torch is one of ours, or has a reason; ``torch`` is all."""
    known = {name for name in torch._logging._internal.log_registry.log_alias_to_log_qnames if "." not in name}
    assert known - {*log_names.COMPONENTS, *log_names.TORCHS_COMPONENTS, "torch", "nbcompile"} == set()
