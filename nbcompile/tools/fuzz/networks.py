"""Training programs: a small network, a loss and an optimizer, for some steps.

    model = nn.Sequential(Residual(nn.Linear(4, 4)), nn.BatchNorm1d(4))
    def step(x, y): out = model(x); ...; loss = F.mse_loss(out, y); loss.backward(); optimizer.step()

Half of the files are a batch of small networks, which are trained in one compiled step with one backward pass for all.

After each step the result, the loss, the parameters, their gradients, the buffers and the state of the optimiser are
observed; between the steps modes, parameters and hooks change. What is compiled is the step, the model, or the loss.
Adam's own step is left to eager: traced, its corrections of the bias are tensors of float32 (as in torch.compile), and
what they make of the first steps is no rounding that can be distinguished from a mistake.

In torch: nothing. Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

from nbcompile.tools.fuzz import batches, grammar, oracle
from nbcompile.tools.fuzz.program import Program

PRELUDE = (grammar.TABLES / "networks_prelude.txt").read_text(encoding="utf-8")
GRAMMAR = grammar.Grammar(grammar.read("networks.txt"), depth=2)
STATE = """

class State:
    def __init__(self, model, optimizer, changes, steps, zeroes):
        torch.manual_seed(1)
        self.model, self.changes, self.steps, self.zeroes, self.seen = model(), changes, steps, zeroes, []
        self.optimizer = optimizer(self.model) if list(self.model.parameters()) else None
        self.x, self.y, self.labels = torch.randn(3, 4), torch.randn(3, 4), torch.tensor([0, 3, 1])

    def update(self):
        if self.optimizer and self.steps: self.optimizer.step()
        if self.optimizer and self.zeroes: self.optimizer.zero_grad()

    def change(self):
        space = {**globals(), **vars(self)}
        exec(self.changes.pop(0), space)
        self.x, self.y = space["x"], space["y"]

    def facts(self):
        return [self.x, self.y, self.model, self.seen, self.optimizer and self.optimizer.state_dict()]

"""
BATCHED = 0.5
"""Share of batches."""
BATCH = 10
BREAKS = re.compile(r"\b(graph_break|item|if out|model|requires_grad_)\b")
"""Words of what breaks a graph, or is asked of one program alone."""
BACKENDS = ("eager",) * 12 + ("aot_eager",) * 7 + ("inductor",)


def _updates(chance: random.Random, apart: bool) -> list[str]:
    """The lines of a training step after the backward pass; ``apart``: the optimizer runs between the steps."""
    lines = ["        if optimizer: optimizer.step()"] if chance.random() < 0.6 and not apart else []
    return lines + (["        if optimizer: optimizer.zero_grad()"] if chance.random() < 0.3 else [])


def generate(seed: str) -> Program:
    """Generate the program of a seed, or its batch."""
    chance = random.Random(seed)
    return batch(seed, chance) if chance.random() < BATCHED else single(seed, chance)


def batch(seed: str, chance: random.Random, size: int = BATCH) -> Program:
    """Small networks that are trained in one compiled step; eager plays each without an exception."""
    functions: list[tuple[str, str]] = []
    while len(functions) < size:
        function = _small(chance)
        alone = _batch_of(seed, [function])
        if oracle.play(alone, lambda compiled: compiled).error is None:
            functions.append(function)
    return replace(_batch_of(seed, functions), backend=chance.choice(BACKENDS))


def _batch_of(seed: str, functions: list[tuple[str, str]]) -> Program:
    again = f"    for state, in inputs: state.change()\n    yield {batches.TRAINING.observed}\n" * 2
    text = batches.module(functions, PRELUDE + STATE, again, batches.TRAINING)
    return Program("nn", seed, text, size=len(functions), approximate=True)


def _small(chance: random.Random) -> tuple[str, str]:
    def drawn(name: str) -> str:
        return GRAMMAR.draw(chance, f"<{name}>", 1)

    layers = ", ".join(drawn("LAYER") for _ in range(chance.randint(1, 2)))
    inside = [line for _ in range(chance.randint(0, 3)) if not BREAKS.search(line := drawn("INSIDE"))]
    lines = [
        "def p(state):",
        "    model, x, y, labels, seen = state.model, state.x, state.y, state.labels, state.seen",
        f"    def loss_of(out): return {drawn('LOSS')}",
        "    out = model(x)",
        *(f"    {line}" for line in inside),
        "    return out, loss_of(out)",
    ]
    optimizer = next(text for text in iter(lambda: drawn("OPTIM"), "") if "Adam" not in text)
    options = f"{chance.random() < 0.6}, {chance.random() < 0.3}"
    changes = [drawn("CHANGE") if chance.random() < 0.3 else "" for _ in range(2)]
    state = f"(State(lambda: nn.Sequential({layers}), lambda model: {optimizer}, {changes!r}, {options}),)"
    return "\n".join(lines) + "\n", state


def single(seed: str, chance: random.Random) -> Program:
    """A network whose step has breaks, exceptions, hooks, and calls of its own."""

    def drawn(name: str) -> str:
        return GRAMMAR.draw(chance, f"<{name}>")

    layers = ", ".join(drawn("LAYER") for _ in range(chance.randint(1, 4)))
    inside = [f"        {drawn('INSIDE')}" for _ in range(chance.randint(0, 4))]
    trains = chance.random() < 0.8
    what = chance.choice(("step", "step", "model", "forward"))
    optimizer = drawn("OPTIM")
    apart = what == "step" and "Adam" in optimizer
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
        *(_updates(chance, apart) if trains else []),
        "        return out, loss",
        f"    step = {'compiled(step)' if what == 'step' else 'step'}",
        "    def seen_now(result): return [result, x, y, model, seen, optimizer and optimizer.state_dict()]",
    ]
    for _ in range(chance.randint(1, 3)):
        lines.append("    yield seen_now(tried(step, x, y))")
        lines += ["    if optimizer: optimizer.step()"] * (apart and trains)
        lines += [f"    {drawn('CHANGE')}" for _ in range(chance.randint(0, 2))]
    lines.append("    yield seen_now(tried(step, x, y))")
    text = PRELUDE + "\n\n" + "\n".join(lines) + "\n"
    # A traced optimiser updates as its other implementation does: approximate, whatever the backend is.
    return Program("nn", seed, text, chance.choice(BACKENDS), approximate=True)
