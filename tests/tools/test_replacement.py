"""nbcompile instead of torch.compile: install, uninstall, and messages."""

import enum
import functools
import inspect
import sys
import types

import pytest
import torch

import nbcompile
from nbcompile.eval_frame.compiled_module import CompiledModule
from nbcompile.tools import replacement

X = torch.linspace(-1, 1, 6)


@pytest.fixture(autouse=True)
def undone():
    yield
    nbcompile.uninstall()


class Net(torch.nn.Module):
    def forward(self, x, scale=2):
        return torch.relu(x) * scale


def test_install_and_uninstall():
    """Functions and modules are compiled by nbcompile, in each form of the call, until uninstall."""
    nbcompile.install()
    nbcompile.install()
    assert type(torch.compile(Net())) is CompiledModule
    assert hasattr(torch.compile(fullgraph=True)(lambda x: x + 1), "_nbcompile_original")
    net = Net()
    net.compile()
    torch.testing.assert_close(net(X), Net()(X))
    assert hasattr(net._compiled_call_impl, "_nbcompile_original")
    nbcompile.uninstall()
    assert not replacement.is_installed()
    assert not hasattr(torch.compile(Net().forward, backend="eager"), "_nbcompile_original")


def test_names_and_wrappers_made_before():
    """An imported name, and a library's wrapper (as in Lightning), call nbcompile until uninstall."""
    from torch import compile as taken

    @functools.wraps(taken)
    def wrapper(*arguments, **keywords):
        return taken(*arguments, **keywords)

    signature = inspect.signature(taken)
    torch.compile = wrapper
    try:
        nbcompile.install()
        assert hasattr(torch.compile(lambda x: x), "_nbcompile_original")
        assert hasattr(taken(lambda x: x), "_nbcompile_original")
        assert inspect.signature(taken) == signature
        nbcompile.uninstall()
        assert not hasattr(torch.compile(lambda x: x, backend="eager"), "_nbcompile_original")
        assert inspect.signature(taken) == signature
    finally:
        torch.compile = taken


def test_backends_by_name():
    """torch's backend names mean ours; "nbcompile" is a backend, and an unknown name is an error."""
    nbcompile.install()
    for backend in ("inductor", "nbcompile", "eager", "aot_eager"):
        torch.testing.assert_close(torch.compile(Net(), backend=backend)(X), Net()(X))
    assert {"inductor", "nbcompile"} <= set(torch.compiler.list_backends())
    with pytest.raises(nbcompile.exc.InvalidBackend, match="nbcompil"):
        torch.compile(Net(), backend="nbcompil")


def test_options_of_inductor():
    """An option of Inductor alone warns once and has no effect; our options work."""
    nbcompile.install()
    replacement._warn_of_option.cache_clear()
    with pytest.warns(nbcompile.exc.OptionWarning, match="epilogue_fusion"):
        compiled = torch.compile(Net(), options={"epilogue_fusion": True, "verify": True})
    torch.testing.assert_close(compiled(X), Net()(X))
    assert compiled.__dict__["_nbcompile_chosen"].backend_options == {"verify": True}


def test_reset():
    """torch.compiler.reset resets nbcompile, too."""
    nbcompile.install()
    compiled = torch.compile(lambda x: x.sin() + 1)
    compiled(X)
    torch.compiler.reset()
    assert len(nbcompile.explain(compiled)(X).record.frames) == 1  # recompiled


def test_list_of_accelerate(monkeypatch, tmp_path):
    """accelerate's list of backends has our name, imported before or after ``install``."""
    source = "import enum\nclass DynamoBackend(str, enum.Enum):\n    INDUCTOR = 'INDUCTOR'\n"
    folder = tmp_path / "accelerate" / "utils"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "utils/__init__.py"):
        (tmp_path / "accelerate" / name).write_text("")
    (folder / "dataclasses.py").write_text(source)
    for name in [name for name in sys.modules if name.partition(".")[0] == "accelerate"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    nbcompile.install()
    from accelerate.utils.dataclasses import DynamoBackend

    assert DynamoBackend("NBCOMPILE").value == "NBCOMPILE" and isinstance(DynamoBackend("NBCOMPILE"), DynamoBackend)
    with pytest.raises(ValueError):
        DynamoBackend("NBCOMPIL")
    nbcompile.uninstall()
    module = types.ModuleType(replacement.ACCELERATE)
    module.DynamoBackend = enum.Enum("DynamoBackend", {"INDUCTOR": "INDUCTOR"}, type=str)
    monkeypatch.setitem(sys.modules, replacement.ACCELERATE, module)
    nbcompile.install()
    assert module.DynamoBackend("NBCOMPILE").value == "NBCOMPILE"
    for name in [name for name in sys.modules if name.partition(".")[0] == "accelerate"]:
        monkeypatch.delitem(sys.modules, name)
