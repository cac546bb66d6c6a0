"""Training programs: a small network, a loss and an optimiser, for some steps.

    model = nn.Sequential(Residual(nn.Linear(4, 4)), nn.BatchNorm1d(4))
    def step(x, y): out = model(x); ...; loss = F.mse_loss(out, y); loss.backward(); optimizer.step()

After each step the result, the loss, the parameters, their gradients, the buffers and the state of the optimiser are
observed; between the steps modes, parameters and hooks change. The step, the model, or the loss is compiled.
Adam's own step runs in eager mode: traced, its bias corrections are tensors of float32 (as in torch.compile), and their
effect on the first steps cannot be distinguished from a bug.

In torch: nothing. Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import random

from nbcompile.tools.fuzz import grammar
from nbcompile.tools.fuzz.program import Program

PRELUDE = (grammar.TABLES / "networks_prelude.txt").read_text(encoding="utf-8")
GRAMMAR = grammar.Grammar(grammar.read("networks.txt"), depth=2)
BACKENDS = ("eager",) * 12 + ("aot_eager",) * 7 + ("inductor",)


def _updates(rng: random.Random, between_steps: bool) -> list[str]:
    """The lines of a training step after the backward pass; ``between_steps``: the optimiser runs between the steps."""
    lines = ["        if optimizer: optimizer.step()"] if rng.random() < 0.6 and not between_steps else []
    return lines + (["        if optimizer: optimizer.zero_grad()"] if rng.random() < 0.3 else [])


def generate(seed: str) -> Program:
    """Generate the program of a seed."""
    rng = random.Random(seed)

    def drawn(name: str) -> str:
        return GRAMMAR.draw(rng, f"<{name}>")

    layers = ", ".join(drawn("LAYER") for _ in range(rng.randint(1, 4)))
    inside = [f"        {drawn('INSIDE')}" for _ in range(rng.randint(0, 4))]
    trains = rng.random() < 0.8
    what = rng.choice(("step", "step", "model", "forward"))
    optimizer = drawn("OPTIM")
    between_steps = what == "step" and "Adam" in optimizer
    lines = [
        "def play(compiled):",
        "    torch.manual_seed(1)",
        f"    model = nn.Sequential({layers})",
        f"    optimizer = {optimizer} if list(model.parameters()) else None",
        "    x, y, labels, seen = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 3, 1]), []",
        f"    called = {'compiled(model)' if what == 'model' else 'model'}",
        f"    def loss_of(out): return {drawn('LOSS')}",
        "    def forward(x, y):",
        "        out = called(x)",
        *inside,
        "        return out",
        f"    forward = {'compiled(forward)' if what == 'forward' else 'forward'}",
        "    def step(x, y):",
        "        out = forward(x, y)",
        "        loss = loss_of(out)",
        *(["        if loss.requires_grad: loss.backward()"] if trains else []),
        *(_updates(rng, between_steps) if trains else []),
        "        return out, loss",
        f"    step = {'compiled(step)' if what == 'step' else 'step'}",
        "    def seen_now(result): return [result, x, y, model, seen, optimizer and optimizer.state_dict()]",
    ]
    for _ in range(rng.randint(1, 3)):
        lines.append("    yield seen_now(tried(step, x, y))")
        lines += ["    if optimizer: optimizer.step()"] * (between_steps and trains)
        lines += [f"    {drawn('CHANGE')}" for _ in range(rng.randint(0, 2))]
    lines.append("    yield seen_now(tried(step, x, y))")
    text = PRELUDE + "\n\n" + "\n".join(lines) + "\n"
    # A traced optimiser updates as its capturable implementation does: approximate with any backend.
    return Program("nn", seed, text, rng.choice(BACKENDS), approximate=True)
