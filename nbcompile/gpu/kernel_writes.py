"""Arguments that a Triton kernel writes: stores and atomics of its first form (TTIR), followed back to parameters.

    find(kernel_source, chip)          {"out"}    of  tl.store(out + offsets, tl.load(x + offsets) * 2)

Every value that holds a pointer comes from others that do: ``tt.addptr`` from its base, the value that a loop carries
from its initial value and from what the last iteration yields, a helper's parameter from all of its calls. An operation
that is not known to write nothing is assumed to write through each pointer that it is given; a pointer that was
loaded from memory, or computed from a number, may be any parameter's.

In torch: identify_accessed_tensors in torch/_higher_order_ops/triton_kernel_wrap.py. Read next:
nbcompile/gpu/user_kernels.py
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from nbcompile.gpu.chip import Chip

_POINTERS = ("!tt.ptr", "!tt.tensordesc")
_STORES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas"})
_HARMLESS = frozenset(
    {
        "tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.ptr_to_int", "tt.print", "tt.assert", "tt.call",
        "tt.return", "tt.reduce.return", "tt.scan.return", "scf.yield", "scf.condition", "cf.br", "cf.cond_br",
        "llvm.intr.assume",
    }
)  # fmt: skip
"""Operations that do not write through their pointers, or whose result is checked where it is used."""
_UNKNOWN = frozenset({"tt.load", "tt.int_to_ptr", "llvm.inttoptr"})
"""Operations whose result, if it is a pointer, may be of any parameter."""


def find(source: ASTSource, chip: Chip) -> frozenset[str]:
    """The names of the parameters that are written through.

    Raises:
        Exception: Triton cannot translate the kernel for these arguments.
    """
    flow = _Flow()
    module = _first_form(source, chip, flow)
    module.walk(flow.visit)
    names = [name for name, kind in source.signature.items() if kind != "constexpr"]
    return frozenset(names[at] for at in flow.written_parameters() if at < len(names))


def _first_form(source: ASTSource, chip: Chip, flow: _Flow) -> Any:
    """Triton's translation of the kernel, before anything is optimised."""
    target = GPUTarget("cuda", chip.capability, 32)
    backend = make_backend(target)
    options = backend.parse_options({})
    flow.context = ir.context()  # has to outlive what is created in it
    ir.load_dialects(flow.context)
    backend.load_dialects(flow.context)
    known = {
        "target": target, "options": options, "context": flow.context, "module_map": backend.get_module_map(),
        "codegen_fns": backend.get_codegen_implementation(options),
    }  # fmt: skip
    # The parameters of make_ir differ between versions of Triton, so arguments are chosen by name.
    return source.make_ir(*(known[name] for name in inspect.signature(source.make_ir).parameters))


@dataclass(slots=True)
class _Function:
    """One function of the module, by the numbers of its values."""

    parameters: list[int]
    returns: list[list[int]]
    """Pointers of each return."""


@dataclass(slots=True)
class _Flow:
    """Origins of each pointer, gathered from the inside of the module to its outside."""

    context: Any = None
    origins: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    stored: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    functions: dict[str, _Function] = field(default_factory=dict)
    calls: list[tuple[str, list[int], list[int]]] = field(default_factory=list)
    """Callee, operands, results."""
    blocks: dict[int, list[int]] = field(default_factory=dict)
    """Arguments of each block, pointers only."""
    parameters: dict[int, list[int]] = field(default_factory=dict)
    """Arguments of each block, all of them."""
    regions: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Blocks of each region."""
    ends: dict[int, list[int]] = field(default_factory=dict)
    """Pointers that the last operation of a block passes to its successors."""

    def visit(self, operation: Any) -> None:
        """Note one operation; those inside of it were noted before."""
        name = operation.get_name()
        if name == "builtin.module":
            return
        operands = [operation.get_operand(at) for at in range(operation.get_num_operands())]
        results = [operation.get_result(at) for at in range(operation.get_num_results())]
        block = self._note_block(operation)
        # The walk goes from the inside out, so the blocks inside have been noted already.
        regions = [operation.get_region(number).id() for number in range(operation.get_num_regions())]
        inner = [at for region in regions for at in self.regions[region]]
        if name == "tt.func":
            self._note_function(operation.get_str_attr("sym_name"), inner)
            return
        # Overwritten by each operation of the block: what is left is of the last one, a yield or a return.
        self.ends[block] = list(_pointers(operands))
        if name == "tt.call":
            callee = operation.get_flat_symbol_ref_attr("callee")
            self.calls.append((callee, [value.id() for value in operands], [value.id() for value in results]))
            return
        self._note_pointers(name, self.ends[block], list(_pointers(results)), inner)

    def _note_pointers(self, name: str, given: list[int], results: list[int], inner: Iterable[int]) -> None:
        """Record an operation by its pointer operands and results, and the blocks inside of it."""
        #     scf.for (%p = %x) { ...; yield %q }        %p and the result may be %x or %q
        # Which result comes from which operand is not analysed: each may come from all. One tensor too many that
        # is assumed to be written costs an order between kernels; one too few would be a wrong result.
        handed = [*given, *(pointer for at in inner for pointer in self.ends.get(at, ()))]
        for pointer in (*results, *(argument for at in inner for argument in self.blocks.get(at, ()))):
            self.origins[pointer].update(handed)
        if name in _UNKNOWN:
            self.unknown.update(results)
        if name in _STORES:
            # The first pointer is the address; a value that is stored may be a pointer as well.
            self.stored.update(given[:1])
        elif given and not results and not inner and name not in _HARMLESS:
            self.stored.update(given)

    def _note_function(self, name: str, blocks: list[int]) -> None:
        returns = [self.ends[at] for at in blocks if at in self.ends]
        # Blocks after the first one are those of branches: their arguments come from any block's end.
        for argument in (pointer for at in blocks[1:] for pointer in self.blocks.get(at, ())):  # of branches
            self.origins[argument].update(pointer for end in returns for pointer in end)
        self.functions[name] = _Function(self.parameters.get(blocks[0], []), returns)

    def _note_block(self, operation: Any) -> int:
        block = operation.get_block()
        if block is None:
            return -1
        number: int = block.id()
        if number not in self.blocks:
            arguments = [block.get_argument(at) for at in range(block.get_num_arguments())]
            self.blocks[number] = list(_pointers(arguments))
            self.parameters[number] = [argument.id() for argument in arguments]
            region = block.get_parent()
            if region is not None:
                self.regions[region.id()].append(number)
        return number

    def written_parameters(self) -> list[int]:
        """Positions of the kernel's parameters."""
        for callee, operands, results in self.calls:
            called = self.functions[callee]
            for parameter, operand in zip(called.parameters, operands, strict=False):
                self.origins[parameter].add(operand)
            for result in results:
                self.origins[result].update(pointer for returned in called.returns for pointer in returned)
        # A module has helpers, which are called, and the kernel, which nothing calls.
        kernel = next(found for name, found in self.functions.items() if name not in {call[0] for call in self.calls})
        reached = self._reached(self.stored)
        # A store through a pointer that was loaded: it may lead into any tensor.
        if reached & self.unknown:
            return list(range(len(kernel.parameters)))
        return [at for at, parameter in enumerate(kernel.parameters) if parameter in reached]

    def _reached(self, start: Iterable[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(start)
        while waiting:
            value = waiting.pop()
            if value not in found:
                found.add(value)
                waiting.extend(self.origins.get(value, ()))
        return found


def _pointers(values: Iterable[Any]) -> Iterable[int]:
    return (value.id() for value in values if any(kind in str(value.get_type()) for kind in _POINTERS))
