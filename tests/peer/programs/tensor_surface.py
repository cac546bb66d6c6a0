"""More functions of torch and Tensor: properties and setters, out=, linalg, fft, scalars and unbacked sizes."""

import torch
import torch.nn.functional as F

from tests.peer.program import program

ones, arange = torch.ones, torch.arange
SCALARS = {"capture_scalar_outputs": True}
SIZES = {"capture_dynamic_output_shape_ops": True}


@program()
def data_is_read():
    def f(x):
        return x.data * 2, x.data.requires_grad

    return f, [(ones(3).requires_grad_(),)]


@program()
def grad_is_read():
    x = ones(3).requires_grad_()
    x.grad = ones(3) * 2

    def f(x):
        return x.grad * 2 if x.grad is not None else x

    return f, [(x,)]


@program()
def grad_is_zeroed():
    def f(x):
        if x.grad is not None:
            x.grad.zero_()
        return x + 1

    def call(compiled):
        x = ones(3).requires_grad_()
        x.grad = ones(3)
        return compiled(x), x.grad

    return f, [call]


@program()
def complex_numbers():
    def f(x):
        return x.real + x.imag, x.conj(), x.abs(), x.angle(), torch.view_as_real(x), x.resolve_conj(), x.is_complex()

    return f, [(torch.tensor([1 + 2j, 3 - 1j]),)]


@program()
def transposes():
    def f(x):
        return x.T, x.mT, x.H, x.mH, x.t(), x.adjoint()

    return f, [(arange(6.0).reshape(2, 3),)]


@program()
def linear_algebra():
    def f(x):
        q, r = torch.linalg.qr(x)
        u, s, v = torch.linalg.svd(x)
        return (
            (q @ r),
            s,
            torch.linalg.inv(x),
            torch.linalg.det(x),
            torch.linalg.norm(x),
            torch.linalg.solve(x, ones(3)),
            torch.linalg.eigvalsh(x + x.t()),
            torch.linalg.cholesky(x @ x.t()),
        )

    return f, [(torch.eye(3) * 2 + arange(9.0).reshape(3, 3) / 10,)]


@program()
def fourier():
    def f(x):
        return torch.fft.fft(x).abs(), torch.fft.irfft(torch.fft.rfft(x)), torch.fft.fftshift(x), torch.fft.fftfreq(4)

    return f, [(arange(4.0),)]


@program()
def special_functions():
    def f(x):
        return (
            torch.special.expit(x),
            torch.special.erf(x),
            torch.special.logsumexp(x, 0),
            torch.special.xlogy(x, x + 1),
        )

    return f, [(arange(4.0),)]


@program()
def indexing_of_all_kinds():
    def f(x, i, m):
        x = x.clone()
        a = x[..., None, 0]
        b = x[i, :, i]
        c = x[:, m]
        d = x[::2, 1:, -1]
        x[i] = 5.0
        x[m.nonzero() if False else 0, 1:] += 1
        x[..., 1] = a[:, 0] * 2
        return a, b, d, x, x[None, True].shape

    return f, [(arange(24.0).reshape(2, 3, 4), torch.tensor([0, 1]), torch.tensor([True, False, True]))]


@program()
def boolean_mask_assignment():
    def f(x):
        x = x.clone()
        x[x > 2] = 0
        x[x < 1] += 3
        return x.masked_fill(x == 0, -1)

    return f, [(arange(6.0),)]


@program(variants={"": {}, "captured": {"config": SIZES}})
def boolean_mask_read():
    def f(x):
        return x[x > 2].sum()

    return f, [(arange(6.0),)]


@program(variants={"breaks": {}, "captured": {"config": SCALARS}})
def item():
    def f(x):
        n = x.sum().item()
        return x * n

    return f, [(ones(3),)]


@program(config={**SCALARS, **SIZES})
def nonzero_captured():
    def f(x):
        i = x.nonzero()
        return i.sum(), i.shape[0]

    return f, [(arange(4),)]


@program(config={**SCALARS, **SIZES})
def unique_captured():
    def f(x):
        u = torch.unique(x)
        return u * 2

    return f, [(torch.tensor([1, 2, 1]),)]


@program()
def nonzero_breaks():
    def f(x):
        return x.nonzero().sum() + 1

    return f, [(arange(4),)]


@program()
def scalar_setting_patched_inside():
    def f(x):
        with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
            n = x.sum().item()
        return x * n

    return f, [(ones(3),)]


@program()
def int_of_a_tensor():
    def f(x):
        return x * int(x.sum()) + float(x[0]) + bool(x[1] > 0)

    return f, [(ones(3),)]


@program()
def size_objects():
    def f(x):
        s = x.shape
        t = torch.Size([2, 3])
        return (
            x.reshape(t),
            s == t,
            s.numel(),
            s[1:],
            s + (1,),
            list(s),
            len(s),
            t[0] * 2,
            isinstance(s, tuple),
            repr(s),
        )

    return f, [(arange(6.0).reshape(2, 3),)]


@program()
def creation_of_tensors():
    def f(x):
        n = x.shape[0]
        return (
            torch.zeros(n, 2), torch.full((n,), 3), torch.eye(n), torch.arange(n), torch.linspace(0, 1, n),
            torch.tensor([1, n]), torch.empty_like(x).fill_(1), x.new_zeros(2), x.new_full((2,), 7), torch.tril_indices(2, 2),
            torch.as_tensor([1.0, 2.0]), torch.ones_like(x, dtype=torch.int32), torch.meshgrid(x, x, indexing="ij"), torch.full_like(x, 2),
        )  # fmt: skip

    return f, [(ones(3),)]


@program()
def einsum_and_friends():
    def f(x, y):
        return (
            torch.einsum("ij,jk->ik", x, y), torch.tensordot(x, y, dims=1), torch.block_diag(x, y), torch.cat([x, x], dim=-1),
            torch.stack((x, x)), torch.cartesian_prod(x[0], y[0]), torch.broadcast_tensors(x[0], x), torch.kron(x, y), torch.cdist(x, x),
        )  # fmt: skip

    return f, [(arange(4.0).reshape(2, 2), ones(2, 2))]


@program()
def several_results():
    def f(x):
        values, indices = x.max(dim=0)
        top = torch.topk(x, 2)
        s = torch.sort(x, descending=True)
        return (
            values,
            indices,
            top.values,
            top[1],
            s.indices,
            torch.var_mean(x),
            torch.aminmax(x),
            x.median(dim=0).values,
        )

    return f, [(torch.tensor([3.0, 1.0, 2.0]),)]


@program()
def backward_called_inside():
    def f(x):
        y = (x * 2).sum()
        y.backward()
        return y + 1

    def call(compiled):
        x = ones(3).requires_grad_()
        out = compiled(x)
        return out.detach(), x.grad

    return f, [call]


@program()
def autograd_grad_inside():
    def f(x):
        (g,) = torch.autograd.grad((x * x).sum(), x)
        return g + 1

    def call(compiled):
        return compiled(ones(3).requires_grad_())

    return f, [call]


@program()
def functional_surface():
    def f(x):
        return (
            F.pad(x, (1, 1)), F.layer_norm(x, (4,)), F.interpolate(x[None, None], scale_factor=2), F.normalize(x), F.cosine_similarity(x, x),
            F.gelu(x), F.silu(x), F.softplus(x), F.unfold(x[None, None], 2), F.group_norm(x[None], 2), F.scaled_dot_product_attention(x, x, x),
            F.max_pool1d(x[None], 2), F.glu(x), F.hardtanh(x), F.leaky_relu(x, 0.1, inplace=False), F.embedding(torch.tensor([0]), x),
        )  # fmt: skip

    return f, [(arange(8.0).reshape(2, 4),)]


@program()
def dtype_conversions():
    def f(x):
        return (
            x.to(torch.int32),
            x.double(),
            x.half().float(),
            x.to("cpu", torch.float64),
            x.type(torch.int64),
            x.type_as(x.int()),
            x.bool(),
            x.cpu(),
            x.to(x.int()),
        )

    return f, [(ones(3),)]


@program()
def tensor_in_conditions():
    def f(x):
        if (
            x.dim() == 1
            and x.numel() > 2
            and x.is_contiguous()
            and not x.requires_grad
            and x.dtype == torch.float32
            and x.device.type == "cpu"
        ):
            return x + x.ndim + x.nbytes + x.itemsize + x.element_size()
        return x

    return f, [(ones(3),)]


@program()
def vectorised_functions():
    def f(x):
        return (
            torch.where(x > 1, x, 0.0),
            torch.searchsorted(x, x),
            torch.bucketize(x, x),
            torch.gather(x, 0, torch.tensor([0, 1])),
            x.scatter(0, torch.tensor([0]), 5.0),
            torch.cumsum(x, 0),
            torch.histc(x, 3),
            torch.clamp(x, min=1),
            x.lerp(x + 1, 0.5),
        )

    return f, [(arange(4.0),)]
