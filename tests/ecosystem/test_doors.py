"""Where libraries ask what a compiled model is: Lightning, accelerate, transformers' Trainer."""

import copy
import inspect
import os

import pytest
import torch

import nbcompile
from nbcompile.eval_frame.compiled_module import CompiledModule


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """A process without accelerate's variables, and with torch's own compile afterwards."""
    for name in [name for name in os.environ if name.startswith("ACCELERATE_")]:
        monkeypatch.delenv(name)
    torch.manual_seed(0)
    yield
    nbcompile.uninstall()
    for name in [name for name in os.environ if name.startswith("ACCELERATE_")]:
        del os.environ[name]


def rows(number=16):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(number, 8, generator=generator)


def weights_equal(left, right):
    for name, value in left.state_dict().items():
        torch.testing.assert_close(value, right.state_dict()[name], rtol=1e-4, atol=1e-5)


def lightning_module():
    pl = pytest.importorskip("lightning.pytorch", reason="the extra `ecosystem` brings lightning")

    class Regression(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _number):
            loss = (self.net(batch) - batch.sum(1, keepdim=True)).square().mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return pl, Regression()


def test_lightning_fit(tmp_path):
    """`Trainer.fit` takes what `compile` returns for a LightningModule, trains it compiled, and gives eager's weights."""
    pl, eager = lightning_module()
    trained = copy.deepcopy(eager)
    compiled = nbcompile.compile(trained)
    for model in (eager, compiled):
        trainer = pl.Trainer(
            max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
            enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        with nbcompile.api.listening(nbcompile.api.new_recorder("fit")) as frame_recorder:
            trainer.fit(model, torch.utils.data.DataLoader(rows(), batch_size=8))
        frames = [frame for frame in frame_recorder.record().frames if "training_step" in frame.function]
        assert bool(frames) == (model is compiled)
    weights_equal(eager, trained)


def test_fabric(tmp_path):
    """Fabric takes a compiled module apart and compiles the wrapped one again, through torch.compile: ours."""
    fabric = pytest.importorskip("lightning.fabric", reason="the extra `ecosystem` brings lightning")
    nbcompile.install()
    compiled = torch.compile(torch.nn.Linear(8, 2))
    expected = compiled._orig_mod(rows())
    wrapped = fabric.Fabric(accelerator="cpu", devices=1).setup(compiled)
    torch.testing.assert_close(wrapped(rows()), expected)
    assert type(wrapped._forward_module) is CompiledModule


def test_accelerate_unwraps():
    """`unwrap_model` finds the module, and `keep_torch_compile` the wrapper."""
    accelerate = pytest.importorskip("accelerate", reason="the extra `ecosystem` brings accelerate")
    module = torch.nn.Linear(8, 2)
    compiled = nbcompile.compile(module)
    assert accelerate.utils.is_compiled_module(compiled)
    accelerator = accelerate.Accelerator(cpu=True)
    prepared = accelerator.prepare(compiled)
    torch.testing.assert_close(prepared(rows()), module(rows()))
    assert accelerator.unwrap_model(prepared, keep_torch_compile=False) is module
    assert accelerator.unwrap_model(prepared, keep_torch_compile=True) is prepared


@pytest.mark.parametrize("backend", ["inductor", "nbcompile"])
def test_accelerate_compiles(backend):
    """A backend that accelerate is given by name, under mixed precision, which puts a conversion around `forward`."""
    accelerate = pytest.importorskip("accelerate", reason="the extra `ecosystem` brings accelerate")
    accelerate.state.AcceleratorState._reset_state(True)
    nbcompile.install()
    module = torch.nn.Linear(8, 2)
    expected = copy.deepcopy(module)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16", dynamo_backend=backend)
    prepared = accelerator.prepare(module)
    assert type(prepared) is CompiledModule
    with torch.autocast("cpu", torch.bfloat16):
        wanted = expected(rows()).float()
    torch.testing.assert_close(prepared(rows()), wanted)
    accelerate.state.AcceleratorState._reset_state(True)


@pytest.mark.parametrize("way", ["compiled model", "inductor", "nbcompile"])
def test_trainer(way, tmp_path):
    """Trainer finds the columns of a compiled model's `forward`, and compiles one itself by the name of a backend."""
    transformers = pytest.importorskip("transformers", reason="the extra `ecosystem` brings transformers")
    pytest.importorskip("accelerate", reason="the extra `ecosystem` brings accelerate")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 1)

        def forward(self, x, labels=None):
            out = torch.tanh(self.layer(x))
            return {"loss": (out.squeeze(-1) - labels).square().mean(), "logits": out}

    eager = Net()
    trained = copy.deepcopy(eager)
    data = [{"x": row, "labels": row.mean(), "unused": 1} for row in rows()]

    def train(model, **more):
        torch.manual_seed(0)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=1, per_device_train_batch_size=4, use_cpu=True, report_to=[],
            save_strategy="no", disable_tqdm=True, **more,
        )  # fmt: skip
        trainer = transformers.Trainer(model, arguments, train_dataset=data)
        trainer._set_signature_columns_if_needed()
        assert {"x", "labels"} <= set(trainer._signature_columns)
        trainer.train()
        return trainer

    train(eager)
    if way == "compiled model":
        compiled = nbcompile.compile(trained)
        assert list(inspect.signature(compiled.forward).parameters) == ["x", "labels"]
        train(compiled)
    else:
        nbcompile.install()
        trainer = train(trained, torch_compile_backend=way)
        assert type(trainer.model_wrapped) is CompiledModule
    weights_equal(eager, trained)
