"""The state of the process in torch: modes, defaults, devices, flags."""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def autocast_inside():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = x @ y
        return z, z.dtype

    return f, [(ones(2, 2), ones(2, 2))]


@program()
def autocast_as_a_decorator():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def f(x, y):
        return x @ y

    return f, [(ones(2, 2), ones(2, 2))]


@program()
def autocast_nested_and_disabled():
    def f(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ y
            with torch.autocast("cpu", enabled=False):
                b = a.float() @ y
        return a, b

    return f, [(ones(2, 2), ones(2, 2))]


@program()
def autocast_outside():
    def f(x, y):
        return x @ y

    def call(compiled):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return compiled(ones(2, 2), ones(2, 2))

    return f, [call, (ones(2, 2), ones(2, 2)), call]


@program()
def default_dtype_is_set():
    def f(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(3)
        torch.set_default_dtype(torch.float32)
        return x + y

    return f, [(ones(3),)]


@program()
def device_context():
    def f(x):
        with torch.device("cpu"):
            return x + torch.ones(3)

    return f, [(ones(3),)]


@program()
def device_context_meta():
    def f(x):
        with torch.device("meta"):
            y = torch.ones(3)
        return x + 1, y.device.type

    return f, [(ones(3),)]


@program()
def default_device_outside():
    def f(x):
        return x + torch.ones(3, device="cpu"), torch.get_default_device().type

    return f, [(ones(3),)]


@program()
def inference_mode_inside():
    def f(x):
        with torch.inference_mode():
            y = x * 2
        return y

    return f, [(ones(3),)]


@program()
def grad_modes():
    def f(x):
        with torch.no_grad():
            a = x * 2
        with torch.enable_grad():
            b = x * 3
        torch.set_grad_enabled(False)
        c = x * 4
        torch.set_grad_enabled(True)
        return a, b, c, torch.is_grad_enabled()

    return f, [(ones(3).requires_grad_(),)]


@program()
def no_grad_decorated_inner():
    def f(x):
        @torch.no_grad()
        def g(a):
            return a * 2

        return g(x) + x

    return f, [(ones(3).requires_grad_(),)]


@program()
def sdpa_kernels():
    def f(q):
        with sdpa_kernel(SDPBackend.MATH):
            return nn.functional.scaled_dot_product_attention(q, q, q)

    return f, [(ones(1, 2, 4, 8),)]


@program()
def sdpa_kernels_list():
    def f(q):
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)

    return f, [(ones(1, 2, 4, 8),)]


@program()
def deterministic_flags():
    def f(x):
        if torch.are_deterministic_algorithms_enabled():
            return x + 1
        return x + 2

    def call(compiled):
        torch.use_deterministic_algorithms(True)
        try:
            return compiled(ones(3))
        finally:
            torch.use_deterministic_algorithms(False)

    return f, [(ones(3),), call]


@program()
def deterministic_set_inside():
    def f(x):
        torch.use_deterministic_algorithms(True)
        y = x + 1
        torch.use_deterministic_algorithms(False)
        return y

    return f, [(ones(3),)]


@program()
def numeric_limits():
    def f(x):
        info = torch.finfo(x.dtype)
        return x * info.eps + info.max * 0 + torch.iinfo(torch.int32).max, torch.finfo(torch.float16).min, info.bits

    return f, [(ones(3),)]


@program()
def dtypes_and_devices_as_values():
    def f(x, dtype, device):
        y = x.to(dtype)
        d = torch.device(device)
        return (
            y.to(d),
            y.dtype.is_floating_point,
            d.type,
            str(dtype),
            dtype.itemsize,
            torch.promote_types(dtype, torch.int8),
        )

    return f, [(ones(3), torch.float64, "cpu"), (ones(3), torch.int32, "cpu")]


@program()
def compiler_queries():
    def f(x):
        if torch.compiler.is_compiling() or torch.compiler.is_dynamo_compiling() or torch.compiler.is_exporting():
            return x + 1
        return x + 1

    return f, [(ones(3),)]


@program()
def backends_flags():
    def f(x):
        if torch.backends.cudnn.enabled and torch.backends.mkldnn.is_available():
            return x + 1
        return x + 2

    return f, [(ones(3),)]


@program()
def cuda_is_asked():
    def f(x):
        if torch.cuda.is_available() and torch.cuda.device_count() > 0:
            return x.cuda()
        return x + 2

    return f, [(ones(3),)]


@program()
def float32_matmul_precision():
    def f(x):
        return x + (1 if torch.get_float32_matmul_precision() == "highest" else 2)

    return f, [(ones(3),)]


@program()
def saved_tensors_hooks_inside():
    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = x * x
        return y

    return f, [(ones(3).requires_grad_(),)]


@program()
def profiler_records():
    def f(x):
        with torch.profiler.record_function("name"):
            return x + 1

    return f, [(ones(3),)]


@program()
def anomaly_mode():
    def f(x):
        with torch.autograd.detect_anomaly(check_nan=False):
            return x + 1

    return f, [(ones(3),)]


class WithoutGradients:
    """A context manager of a library: it stores the previous grad mode and restores it."""

    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *error):
        torch._C._set_grad_enabled(self.before)


@program()
def grad_mode_is_set_in_c():
    def f(x):
        torch._C._set_grad_enabled(False)
        return x * 2

    return f, [(ones(3).requires_grad_(),)]


@program()
def grad_mode_is_kept_by_a_manager():
    def f(x):
        with WithoutGradients():
            y = x * 2
        return y, x * 3

    return f, [(ones(3).requires_grad_(),)]


@program()
def grad_mode_is_kept_by_a_manager_around_a_break():
    def f(x):
        with WithoutGradients():
            y = x * 2
            torch._dynamo.graph_break()
            y = y + 1
        return y, x * 3

    return f, [(ones(3).requires_grad_(),)]


@program()
def grad_mode_is_set_in_c_to_a_number():
    def f(x):
        try:
            torch._C._set_grad_enabled(x.shape[0])
        except TypeError as error:
            return x * 2, str(error)
        return x

    return f, [(ones(3),)]


@program()
def default_dtype_is_set_for_a_while():
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        y = torch.tensor(1.0) + torch.zeros(2).sum()
        torch.set_default_dtype(before)
        return y, torch.zeros(2).dtype, x.sin()

    return f, [(ones(3),), (ones(3),)]


@program()
def profiler_around_a_part():
    def f(x):
        with torch.profiler.profile():
            y = x + 1
        return y * 2

    return f, [(ones(3),)]


@program()
def profiler_made_before_it_is_entered():
    def f(x):
        profiler = torch.autograd.profiler.profile(enabled=True)
        with profiler as entered:
            y = x + 1
        return y * 2 if entered is profiler else y

    return f, [(ones(3),)]


@program()
def break_in_ranges_of_a_profiler():
    def f(x):
        with torch.profiler.record_function("outer"), torch.profiler.profile():
            y = x + 1
            torch._dynamo.graph_break()
            y = y * 2
        return y + 3

    return f, [(ones(3),)]
