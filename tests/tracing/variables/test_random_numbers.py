"""Random numbers of Python inside compiled functions: eager mode's at each call, with one cache entry."""

from __future__ import annotations

import random
import threading
from random import randint

import pytest
import torch
import torch.utils.checkpoint

import nbcompile
from tests.support.graphs import Graphs

outside = random.Random(5)
bound = outside.uniform
STATE = random.Random(9).getstate()
drawing = random.Random(0)
LARGE = [drawing.randrange(2**70) for _ in range(3)]


class Augment(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = random.Random(4)
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * self.generator.uniform(1, 2)


torch.manual_seed(0)
augment = Augment()


def of_the_module(x):
    return x * random.randint(1, 9) + random.uniform(1, 2) - random.randrange(7), randint(1, 9)


def bound_before(x):
    return x * bound(1, 2)


def of_an_attribute(x):
    return augment(x)


def made_inside_lives_on(x):
    made = random.Random(3)
    y = x + made.random()
    print(end="")
    return y + made.random(), made.randint(1, 5), made.getstate()


def state_lives_on(x):
    state = outside.getstate()
    y = x * outside.uniform(0, 1)
    print(end="")
    outside.setstate(state)
    return y + outside.uniform(0, 1)


def state_from_outside(x):
    outside.setstate(STATE)
    return x + outside.random()


def seeded(x):
    outside.seed("abc")
    return x + outside.random(), outside.seed(2.5)


def sizes(x):
    return torch.zeros(random.randint(1, 4)) + x.sum(), x[: random.randint(1, 3)], x.roll(random.randint(0, 2))


def looked_up(x):
    return [x, x + 1, x + 2][random.randint(0, 2)] + x[random.randrange(3)]


def repeated(x):
    for _ in range(random.randint(1, 3)):
        x = x + 1
    return x


def decided(x):
    return x + 1 if random.uniform(0, 1) < 0.5 else x - 1


def formatted(x):
    number = random.randint(1, 9)
    return len(f"{number:>{number}}"), x * number


def returned_and_computed(x):
    number = random.uniform(0, 1)
    return {"a": number}, [number, x * number], number * 2, int(number * 10), -number, random.randint(0, 4) == 3


def of_every_dtype(x):
    number, whole = random.uniform(0, 1), random.randint(1, 4)
    return x.half() * number, x.int() * whole, x.int() * number, torch.tensor(2.0) * number, torch.tensor(3) + number


def that_raises(x):
    try:
        return x + random.randint(9, 1)
    except ValueError:
        return x - 1


def in_a_checkpoint(x):
    return torch.utils.checkpoint.checkpoint(lambda y: y.sin() * random.uniform(0, 1), x, use_reentrant=False)


def shadowed(x):
    outside.uniform = lambda low, high: 7
    try:
        return x + outside.uniform(1, 2)
    finally:
        del outside.uniform


def unused(x):
    random.randint(1, 3)
    return x.sin()


def not_finite(x):
    return x * random.uniform(float("inf"), 1), x * random.uniform(1e308, -1e308)


ALL = [each for each in list(globals().values()) if getattr(each, "__module__", "") == __name__ and callable(each)]
FUNCTIONS = [each for each in ALL if not isinstance(each, (type, torch.nn.Module))]
IN_ONE_GRAPH = (of_the_module, bound_before, of_an_attribute, state_from_outside, seeded, sizes, shadowed, unused)


class Counting:
    """A backend that counts graphs and their runs."""

    def __init__(self):
        self.graphs = self.runs = 0

    def __call__(self, module, examples):
        self.graphs += 1

        def run(*arguments):
            self.runs += 1
            return module.forward(*arguments)

        return run


def observed(function, calls=4):
    """The results of several calls, and the states of the generators after each call."""
    random.seed(0)
    outside.seed(5)
    augment.generator.seed(4)
    return [
        (function(torch.arange(3.0) + 1), random.getstate(), outside.getstate(), augment.generator.getstate())
        for _ in range(calls)
    ]


@pytest.mark.filterwarnings("error:nbcompile failed")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_results_and_states_are_eagers_at_each_call(function, backend):
    """Every call draws new numbers in eager mode's order, from the same generator, with the same state afterwards."""
    expected = observed(function)
    torch.testing.assert_close(
        observed(nbcompile.compile(function, backend=backend)), expected, rtol=1e-6, atol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize("function", IN_ONE_GRAPH, ids=lambda each: each.__name__)
def test_one_graph_serves_every_draw(function):
    """The random number is an input of the graph, so the graph does not break and needs no recompile."""
    backend = Counting()
    observed(nbcompile.compile(function, backend=backend, fullgraph=True))
    assert (backend.graphs, backend.runs) == (1, 4)


def test_another_generator_is_served_by_the_same_entry():
    """The guard checks the class of the generator, and not its state."""

    def f(x, generator):
        return x * generator.uniform(1, 2)

    backend = Counting()
    compiled = nbcompile.compile(f, backend=backend, fullgraph=True)
    for seed in range(3):
        assert torch.equal(compiled(torch.ones(2), random.Random(seed)), f(torch.ones(2), random.Random(seed)))
    assert backend.graphs == 1


def test_a_method_that_comes_to_shadow_the_class_is_seen():
    """A method that is stored on the generator is called from then on."""

    def f(x, generator):
        return x + generator.uniform(1, 2)

    generator = random.Random(1)
    compiled = nbcompile.compile(f, backend="eager")
    compiled(torch.ones(1), generator)
    generator.uniform = lambda low, high: 10
    assert compiled(torch.ones(1), generator).item() == 11


def test_a_subclass_draws_as_it_says():
    """A user's subclass of ``random.Random`` uses its own methods."""

    class Constant(random.Random):
        def random(self):
            return 0.25

    def f(x, generator):
        return x + generator.random() + generator.uniform(1, 2)

    assert nbcompile.compile(f, backend="eager")(torch.zeros(1), Constant()).item() == 1.5


def test_a_generator_without_a_seed_is_a_new_one_at_each_call():
    """``random.Random()`` gets a new seed at each run, not once while tracing."""

    def f(x):
        return x + random.Random().random()

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert len({compiled(torch.zeros(1, dtype=torch.float64)).item() for _ in range(4)}) == 4


def test_a_method_that_is_not_traced_breaks_the_graph_behind_the_draws():
    """``choice``, ``shuffle``, ``sample`` and ``gauss`` of a new generator go on with its state, as in eager mode."""

    def f(x):
        generator = random.Random(3)
        y = x * generator.randint(1, 9)
        items = [1, 2, 3]
        generator.shuffle(items)
        return y, items, generator.choice(items), generator.sample(items, 2), generator.gauss(0, 1), generator.random()

    graphs = Graphs()
    x = torch.ones(2)
    assert str(nbcompile.compile(f, backend=graphs)(x)) == str(f(x))
    assert len(graphs) == 1


def test_a_draw_in_a_branch_of_an_operator_is_rejected():
    """A branch of ``cond`` may never run, so it cannot contain a random draw."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda y: y + random.randint(1, 3), lambda y: y - 1, (x,))

    with pytest.raises(Exception, match="captured completely"):
        nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2))


def test_an_int_that_fits_no_tensor_is_drawn_by_python():
    """A random int that may not fit into an int64 breaks the graph, and equals eager mode's."""

    def f(x):
        return x.sin(), random.randrange(2**70)

    compiled = nbcompile.compile(f, backend="eager")
    for function in (f, compiled):
        random.seed(0)
        assert [function(torch.ones(1))[1] for _ in range(3)] == LARGE


def test_draws_of_threads():
    """Each thread uses its own generator, stored in a ``threading.local``."""
    local = threading.local()

    def f(x):
        return x * local.generator.uniform(1, 2)

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    found = {}

    def run(seed):
        local.generator = random.Random(seed)
        found[seed] = compiled(torch.ones(1)).item()

    for seed in (1, 2):
        thread = threading.Thread(target=run, args=(seed,))
        thread.start()
        thread.join()
    assert found == {seed: torch.tensor(random.Random(seed).uniform(1, 2)).item() for seed in (1, 2)}


def test_an_attribute_that_hid_a_member_of_the_class_is_deleted():
    """An attribute that hid a member of the class, and that the program deleted, is not deleted again."""

    class Member:
        level = 1

    def f(x, member):
        member.level = 5
        y = x + member.level
        del member.level
        return y + member.level

    member = Member()
    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1), member).item() == 6
    member.level = 3
    assert compiled(torch.zeros(1), member).item() == 6
    assert vars(member) == {}
