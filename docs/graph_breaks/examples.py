"""For each kind of graph break a function that has it, and one that does the same without.

``nb0005`` breaks the graph with kind NB0005, ``nb0005_fixed`` does not. Both are run when the documentation is built,
by ``python -m nbcompile explain NB0005`` (nbcompile/tools/explain.py) and by tests/docs/test_graph_breaks.py.
``given(...)`` says what they are called with (what needs NumPy in a lambda), and which settings the fix needs.
"""

import array
import contextlib
import copy
import datetime as dt
import io
import logging
import os
import threading

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch.utils.checkpoint import checkpoint

import nbcompile

try:
    import numpy as np
except ImportError:
    np = None  # the examples that need it cannot be run then

x = torch.ones(3)
buffer = io.BytesIO()
lock = threading.Lock()
logger = logging.getLogger("examples")
logger.addHandler(logging.NullHandler())
logger.propagate = False


def given(*arguments, **changed_settings):
    """What an example is called with, and under which settings."""

    def mark(function):
        function.arguments = arguments
        function.settings = changed_settings
        return function

    return mark


class Settings:
    """An object of a class that torch knows nothing about."""

    scale = 2.0


@nbcompile.disable(reason="it talks to a server")
def ask_server(x):
    return x * 2


@nbcompile.disable(recursive=False)
def dispatch(x):
    return x * 2


@contextlib.contextmanager
def measured():
    yield


def batches(x):
    yield x + 1
    nbcompile.graph_break()
    yield x + 2


opaque = nbcompile.nonstrict_trace(lambda settings, x: x * settings.scale)
opaque_settings = nbcompile.nonstrict_trace(lambda x: Settings())
in_graph = nbcompile.allow_in_graph(lambda settings, x: x * 2)


class Registered(Settings):
    """A class that torch knows to be a constant."""

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return 0


pytree.register_constant(Registered)
registered = Registered()
settings_object = Settings()
lstm = torch.nn.LSTM(3, 3)
weights = torch.ones(3, requires_grad=True)


def nb0001(x):
    x = x + 1
    nbcompile.graph_break()
    return x * 2


def nb0001_fixed(x):
    x = x + 1
    return x * 2


def nb0002(x):
    x = x + 1
    torch.save(x, buffer)
    return x * 2


def nb0002_fixed(x):
    x = x + 1
    if not nbcompile.is_compiling():
        torch.save(x, buffer)
    return x * 2


def nb0003(x):
    return x + os.getpid() % 2


process = os.getpid()


def nb0003_fixed(x):
    return x + process % 2


def nb0004(x):
    print("half way")
    return x + 1


@given(x, reorderable_logging_functions={print})
def nb0004_fixed(x):
    print("half way")
    return x + 1


def nb0005(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def nb0005_fixed(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


def nb0006(x):
    return x + x.sum().item()


def nb0006_fixed(x):
    return x + x.sum()


@given(torch.arange(3))
def nb0007(x):
    return (x + 1).tolist()


@given(torch.arange(3))
def nb0007_fixed(x):
    return x + 1


def nb0008(x):
    return x[x > 0]


@given(x, capture_dynamic_output_shape_ops=True)
def nb0008_fixed(x):
    return x[x > 0]


def nb0009(x):
    return ask_server(x) + 1


def nb0009_fixed(x):
    return x * 2 + 1


def nb0010(x):
    return dispatch(x) + 1


def nb0010_fixed(x):
    return x * 2 + 1


def nb0011(x):
    try:
        return torch.sin(x, x)
    except TypeError:
        return x


def nb0011_fixed(x):
    return torch.sin(x)


def nb0012(x):
    for _ in range(2):
        x = x + 1
        nbcompile.graph_break()
    return x


def nb0012_fixed(x):
    for _ in range(2):
        x = x + 1
    nbcompile.graph_break()
    return x


def nb0013(x):
    with measured():
        x = x + 1
        nbcompile.graph_break()
        return x + 1


def nb0013_fixed(x):
    with measured():
        x = x + 1
    nbcompile.graph_break()
    with measured():
        return x + 1


def nb0014(x):
    with lock:
        return x + 1


def nb0014_fixed(x):
    return x + 1


def nb0015(x):
    x = x + 1
    if x.dim() != 2:
        raise ValueError("two dimensions are needed")
    return x


def nb0015_fixed(x):
    x = x + 1
    try:
        if x.dim() != 2:
            raise ValueError("two dimensions are needed")
    except ValueError:
        x = x[None]
    return x


def _iterator():
    return iter([1, 2])


@given(_iterator, x)
def nb0016(numbers, x):
    return x + next(numbers)


@given([1, 2], x)
def nb0016_fixed(numbers, x):
    return x + next(iter(numbers))


def nb0017(x):
    return x + len(array.array("i", [1]))


def nb0017_fixed(x):
    return x + len([1])


@given(weights)
def nb0019(x):
    loss = (x * 2).sum()
    loss.backward()
    return loss


@given(weights, trace_autograd_ops=True)
def nb0019_fixed(x):
    loss = (x * 2).sum()
    loss.backward()
    return loss.detach()


@given(torch.ones(3))  # of its own: the change stays
def nb0020(x):
    x.requires_grad_()
    return x * 2


@given(weights)
def nb0020_fixed(x):
    return x * 2


def nb0021(x):
    logger.info("half way")
    return x + 1


@given(x, ignore_logging_functions={logging.Logger.info})
def nb0021_fixed(x):
    logger.info("half way")
    return x + 1


def nb0024(x):
    nbcompile.skip_frame()
    return x + 1


def nb0024_fixed(x):
    return x + 1


def nb0025(x):
    x = x + 1
    nbcompile.step_unsupported()
    return x * 2


def nb0025_fixed(x):
    x = x + 1
    return x * 2


@given(torch.ones(2, 1, 3))
def nb0031(x):
    return lstm(x)[0] + 1


@given(torch.ones(2, 1, 3), allow_rnn=True)
def nb0031_fixed(x):
    return lstm(x)[0] + 1


@given(torch.ones(3))
def nb0036(x):
    return (x * 2).tolist()


@given(torch.ones(3))
def nb0036_fixed(x):
    return x * 2


def _two(a, b):
    return a + b


def nb0044(x):
    try:
        return _two(x)
    except TypeError:
        return x


def nb0044_fixed(x):
    return _two(x, x)


@given(weights)
def nb0045(x):
    return torch.autograd.grad((x * x).sum(), x)[0]


@given(weights, trace_autograd_ops=True)
def nb0045_fixed(x):
    return torch.autograd.grad((x * x).sum(), x)[0]


def nb0047(x):
    return x + torch.is_inference_mode_enabled()


def nb0047_fixed(x):
    return x + torch.is_grad_enabled()


def nb0048(x):
    return x + x.is_inference()


def nb0048_fixed(x):
    return x + x.requires_grad


@given(x, reorderable_logging_functions={print})
def nb0090(x):
    x = x + 1
    print(settings_object.__class__)
    return x * 2


@given(x, reorderable_logging_functions={print})
def nb0090_fixed(x):
    x = x + 1
    print("of class Settings")
    return x * 2


def nb0091(x):
    return opaque(settings_object, x)


def nb0091_fixed(x):
    return opaque(registered, x)


def nb0092(x):
    opaque_settings(x)
    return x + 1


def nb0092_fixed(x):
    return opaque(registered, x)


def nb0093(x):
    def inner(x):
        return x + 1

    return nbcompile.nonstrict_trace(inner)(x)


def nb0093_fixed(x):
    return opaque(registered, x)


def nb0094(x):
    return in_graph(settings_object, x)


def nb0094_fixed(x):
    return in_graph(2.0, x)


def nb0035(x):
    return copy.deepcopy(x + 1)


def nb0035_fixed(x):
    return (x + 1).clone()


@given(lambda: np.ones(3))
def nb0061(a):
    return (a + 1).ctypes


@given(lambda: np.ones(3))
def nb0061_fixed(a):
    return (a + 1).shape


@given(lambda: np.ones(3))
def nb0062(a):
    return (a + 1).tobytes()


@given(lambda: np.ones(3))
def nb0062_fixed(a):
    return (a + 1).copy()


@given(lambda: np.ones(3))
def nb0063(a):
    return (a + 1).astype(object)


@given(lambda: np.ones(3))
def nb0063_fixed(a):
    return (a + 1).astype(np.float64)


@given(lambda: np.array(["a", "b"]), x)
def nb0064(names, x):
    return x + len(names)


@given(["a", "b"], x)
def nb0064_fixed(names, x):
    return x + len(names)


@given(lambda: np.ones(3))
def nb0066(a):
    return np.add.reduce(a)


@given(lambda: np.ones(3))
def nb0066_fixed(a):
    return np.sum(a)


@given(x, capture_scalar_outputs=True)
def nb0084(x):
    if x.sum().item() > 0:
        return x + 1
    return x - 1


@given(x, capture_scalar_outputs=True)
def nb0084_fixed(x):
    return torch.where(x.sum() > 0, x + 1, x - 1)


def nb0067(x):
    class Local:
        scale = 2

    return x * Local.scale


def nb0067_fixed(x):
    return x * Settings.scale


def nb0068(x):
    try:
        import no_such_module  # noqa: F401
    except ImportError:
        return x + 1
    return x


def nb0068_fixed(x):
    return x + 1


def nb0069(x):
    try:
        error = ValueError("no")
        error.detail = 3
        raise error
    except ValueError:
        return x + 1


def nb0069_fixed(x):
    try:
        raise ValueError("no", 3)
    except ValueError:
        return x + 1


def nb0070(x):
    return sorted([x.sum(), x.max()])[0]


def nb0070_fixed(x):
    return torch.minimum(x.sum(), x.max())


@given(torch.eye(2).to_sparse())
def nb0095(x):
    return x + x


@given(torch.eye(2))
def nb0095_fixed(x):
    return x + x


@given(torch.eye(2))
def nb0096(x):
    return x.to_sparse()


@given(torch.eye(2))
def nb0096_fixed(x):
    return x + x


def nb0097(x):
    return (x + 1).resize_(2)


def nb0097_fixed(x):
    return (x + 1)[:2]


def nb0098(x):
    return torch.add(x, 1, out=torch.empty(0))


def nb0098_fixed(x):
    return torch.add(x, 1, out=torch.empty(3))


def nb0099(x):
    return torch.add(x, 1, out=torch.empty(6)[::2])


def nb0099_fixed(x):
    return torch.empty(6)[::2].copy_(x + 1)


SEEN = []


def nb0050(x):
    def body(y):
        SEEN.append(y.shape)
        return y.sin()

    return checkpoint(body, x, use_reentrant=False)


def nb0050_fixed(x):
    def body(y):
        return y.sin()

    SEEN.append(x.shape)
    return checkpoint(body, x, use_reentrant=False)


@given(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
def nb0100(x):
    return x + x


@given(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]).to_padded_tensor(0.0))
def nb0100_fixed(x):
    return x + x


def nb0018(x):
    return x * [3, 1].__sizeof__()


def nb0018_fixed(x):
    return x * len([3, 1])


def nb0023(x):
    try:
        raise ExceptionGroup("both", [ValueError(), KeyError()])
    except* ValueError:
        x = x + 1
    except* KeyError:
        x = x * 2
    return x


def nb0023_fixed(x):
    for error in ValueError(), KeyError():
        try:
            raise error
        except ValueError:
            x = x + 1
        except KeyError:
            x = x * 2
    return x


def nb0027(x):
    scales = {"small": 0.5, "large": 2.0}
    names = iter(scales)
    nbcompile.graph_break()
    return x * scales[next(names)]


def nb0027_fixed(x):
    scales = {"small": 0.5, "large": 2.0}
    names = iter(list(scales))
    nbcompile.graph_break()
    return x * scales[next(names)]


def nb0028(x):
    return x * len([].append.__doc__)


def nb0028_fixed(x):
    return x * len(list.append.__name__)


def nb0029(x):
    x.note = "seen"
    len.note = "seen"
    return x + 1


def nb0029_fixed(x):
    x.note = "seen"
    return x + 1


def nb0034(x):
    def rows():
        try:
            yield x + 1
        finally:
            SEEN.append(len(SEEN))

    return next(rows())


def nb0034_fixed(x):
    def rows():
        try:
            yield x + 1
        finally:
            SEEN.append(len(SEEN))

    return next(iter(list(rows())))


@given(torch.ones(3, requires_grad=True))
def nb0049(x):
    y = x * 2
    return y if y.grad_fn.next_functions else x


@given(torch.ones(3, requires_grad=True))
def nb0049_fixed(x):
    y = x * 2
    return y if y.requires_grad else x


def nb0052(x):
    return torch.cond(x.sum() > 0, lambda y: y.add_(1), lambda y: y - 1, (x,))


def nb0052_fixed(x):
    return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


def nb0053(x):
    return torch.cond(x.sum() > 0, lambda y: y, lambda y: y - 1, (x,))


def nb0053_fixed(x):
    return torch.cond(x.sum() > 0, lambda y: y.clone(), lambda y: y - 1, (x,))


def nb0054(x):
    return torch.cond(x.sum() > 0, lambda y: (y + 1, y + 2), lambda y: y - 1, (x,))


def nb0054_fixed(x):
    return torch.cond(x.sum() > 0, lambda y: (y + 1, y + 2), lambda y: (y - 1, y - 2), (x,))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(_, gradient):
        return gradient * 2


class DoubledForwards(Doubled):
    @staticmethod
    def jvp(_, tangent):
        return tangent * 2


@given(torch.ones(3, requires_grad=True))
def nb0055(x):
    return DoubledForwards.apply(x)


@given(torch.ones(3, requires_grad=True))
def nb0055_fixed(x):
    return Doubled.apply(x)


def nb0060(x):
    return torch.from_numpy(np.asarray(np.median(x.numpy())))


def nb0060_fixed(x):
    return torch.from_numpy(np.asarray(np.mean(x.numpy())))


def nb0065(x):
    return torch.add(x, np.ones(3, dtype="float32"))


def nb0065_fixed(x):
    return torch.add(x, torch.from_numpy(np.ones(3, dtype="float32")))


def nb0101(x):
    def rows():
        try:
            raise ValueError
        except ValueError:
            yield x + 1
            yield x + 2

    both = rows()
    first = next(both)
    nbcompile.graph_break()
    return first + next(both)


def nb0101_fixed(x):
    def rows():
        try:
            raise ValueError
        except ValueError:
            yield x + 1
            yield x + 2

    first, second = rows()
    nbcompile.graph_break()
    return first + second


@given(x, zip([1, 2], [3, 4], strict=True))
def nb0102(x, pairs):
    for first, second in pairs:
        x = x + first * second
    return x


@given(x, [(1, 3), (2, 4)])
def nb0102_fixed(x, pairs):
    for first, second in pairs:
        x = x + first * second
    return x


def nb0051(x):
    def rows():
        y = x.sin()
        yield y
        yield y + 1

    row = rows()
    first = checkpoint(lambda a: a + next(row), x, use_reentrant=False)
    return first + next(row)


def nb0051_fixed(x):
    y = x.sin()
    first = checkpoint(lambda a: a + y, x, use_reentrant=False)
    return first + y + 1


@given(torch.ones(1, 2, 4, 4))
def nb0120(x):
    try:
        return F.pad(x, (1, 1), mode="reflect")
    except NotImplementedError:
        return x


@given(torch.ones(1, 2, 4, 4))
def nb0120_fixed(x):
    return F.pad(x, (1, 1, 0, 0), mode="reflect")


library = torch.library.Library("nbcompile_examples", "FRAGMENT")
library.define("thrice(Tensor x) -> Tensor")
library.define("thrice_with_fake(Tensor x) -> Tensor")
library.impl("thrice", lambda x: x * 3, "CPU")
library.impl("thrice_with_fake", lambda x: x * 3, "CPU")
library._register_fake("thrice_with_fake", lambda x: torch.empty_like(x))


def nb0121(x):
    return torch.ops.nbcompile_examples.thrice(x + 1)


def nb0121_fixed(x):
    return torch.ops.nbcompile_examples.thrice_with_fake(x + 1)


@given(torch.ones(3))
def nb0110(x):
    y = x * 2
    y.requires_grad = True
    return y * 2


@given(torch.ones(3, requires_grad=True))
def nb0110_fixed(x):
    return x * 2 * 2


def nb0111(x):
    y = x * 2
    y.requires_grad_()
    return y.sum()


def nb0111_fixed(x):
    y = x * 2
    y.requires_grad_()
    return y.sum().detach()


def nb0112(x):
    y = x * 2
    y.data = x + 1
    return y * 3


def nb0112_fixed(x):
    return (x + 1) * 3


@given(torch.ones(3))
def nb0113(x):
    x.data = x.double()
    return x * 2


@given(torch.ones(3))
def nb0113_fixed(x):
    x.data = x.double().float()
    return x * 2


@given(torch.ones(3, dtype=torch.complex64))
def nb0114(x):
    x.real = torch.zeros(3)
    return x * 2


@given(torch.ones(3, dtype=torch.complex64))
def nb0114_fixed(x):
    x.real.copy_(torch.zeros(3))
    return x * 2


def nb0115(x):
    return x * torch.nn.Parameter(torch.ones(3))


weight = torch.nn.Parameter(torch.ones(3))


def nb0115_fixed(x):
    return x * weight


def nb0116(x):
    return x * torch.ones(3, requires_grad=True)


def nb0116_fixed(x):
    return x * torch.ones(3)


@given(x, dt.timedelta(days=2))
def nb0022(x, pause):
    return x * (pause + pause).days


@given(x, dt.timedelta(days=2))
def nb0022_fixed(x, pause):
    return x * (pause.days + pause.days)


class Watching(torch.Tensor):
    """It sees each operator, and does not say which tensors it holds (``__tensor_flatten__``)."""

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*(each.held if isinstance(each, cls) else each for each in args), **(kwargs or {}))


@given(Watching(x))
def nb0026(x):
    return torch.sin(x)


@given(Watching(x).held)
def nb0026_fixed(x):
    return torch.sin(x)


@given(x, capture_scalar_outputs=True)
def nb0030(x):
    count = x.sum().long().item()
    return x * [1, 2, 3, 4][count]


@given(x, capture_scalar_outputs=True)
def nb0030_fixed(x):
    count = x.sum().long()
    return x * torch.tensor([1, 2, 3, 4]).index_select(0, count)


def steps(x, left):
    return x if left == 0 else steps(x + 1, left - 1)


@given(x, 300)
def nb0033(x, count):
    return steps(x, count)


@given(x, 300)
def nb0033_fixed(x, count):
    for _ in range(count):
        x = x + 1
    return x


class Ordered(type):
    def depth(cls):
        return len(super().mro())


class Layered(metaclass=Ordered):
    pass


def nb0046(x):
    return x * Layered.depth()


def nb0046_fixed(x):
    return x * len(Layered.__mro__)


class FailedAttempt(torch.nn.Module):
    def __init__(self):
        pass


@given(x, FailedAttempt())
def nb0122(x, module):
    return x * 2 if callable(module) else x


class Finished(torch.nn.Module):
    def __init__(self):
        super().__init__()


@given(x, Finished())
def nb0122_fixed(x, module):
    return x * 2 if callable(module) else x


class Watched(torch.nn.Module):
    def forward(self, x):
        return x * 2


watched = Watched()
watched.register_full_backward_hook(lambda module, grad_input, grad_output: None)


@given(x, watched)
def nb0123(x, module):
    return module(x) + 1


@given(x, Watched())
def nb0123_fixed(x, module):
    return module(x) + 1


@given(weights, trace_autograd_ops=True)
def nb0124(x):
    loss = (x * x).sum()
    loss.backward(create_graph=True)
    return x.grad.sum()


@given(weights, trace_autograd_ops=True)
def nb0124_fixed(x):
    (gradient,) = torch.autograd.grad((x * x).sum(), x, create_graph=True)
    return gradient.sum()


@given(weights, trace_autograd_ops=True)
def nb0125(x):
    loss = (x * x).sum()
    loss.backward()
    return loss


@given(weights, trace_autograd_ops=True)
def nb0125_fixed(x):
    loss = (x * x).sum()
    loss.backward()
    return loss.detach()


@given(weights * 2, trace_autograd_ops=True)
def nb0126(x):
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    return loss.detach()


@given(weights * 2, trace_autograd_ops=True)
def nb0126_fixed(x):
    x = x.detach()
    return x * 2


def differentiate_twice(loss, x):
    return torch.autograd.grad(loss, x)[0] + torch.autograd.grad(loss, x)[0]


@given(weights, trace_autograd_ops=True)
def nb0127(x):
    return differentiate_twice((x * x).sum(), x)


@given(weights, trace_autograd_ops=True)
def nb0127_fixed(x):
    loss = (x * x).sum()
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    return first + second


def nb0128(x):
    with torch.profiler.profile() as profiler:
        y = x + 1
    return y, profiler


def nb0128_fixed(x):
    with torch.profiler.profile():
        return x + 1


# torch cannot make a fake tensor that is quantized: the frame begins eagerly, and goes on with ordinary tensors.
@given(lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))
def nb0129(x):
    return x.dequantize() * 2


def nb0129_fixed(x):
    return x * 2
