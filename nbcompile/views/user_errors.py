"""Explanation of the exception that ended a cell: the line, the operator, its inputs, and a fix.

    `forward` raises `RuntimeError` at line 9: `mat1 and mat2 shapes cannot be multiplied (2x16 and 8x4)`.
        return self.last(h)
               ^^^^^^^^^^^^
    `linear` is called with `h` `f32[2, 16]`, `self.last.weight` `f32[4, 8]`, `self.last.bias` `f32[4]`.
    The last dimension of the input must be the layer's `in_features`: ...

The operator is the one that failed during tracing, or the one of the kernel that found an index out of bounds. The
advice is from a table by class and text of the exception; for other exceptions there is none.

In torch: nothing; only the traceback. Read next: nbcompile/views/cell_summary.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbcompile.record import links
from nbcompile.record.model import EAGER, RAISED, Argument, CompiledFrame, FailedCall, Node, Raised, Record, StackLine
from nbcompile.views import annotated_source, facts

OWN_ERRORS = frozenset({
    "BackendCompilerFailed", "FailOnRecompile", "FailOnRecompileLimitHit", "InternalError", "KeyboardInterrupt",
    "RecompileError", "ReplayedSideEffects", "UncapturedHigherOrderOpError", "Unsupported",
})  # fmt: skip
"""Exceptions of the compiler itself, which the frames explain."""


@dataclass(frozen=True, slots=True)
class UserError:
    """Exception of the user's program, with its context."""

    error: str
    message: str
    location: StackLine | None
    position: int
    """Index in ``raised.stack``; -1 if it is elsewhere."""
    operator: str = ""
    arguments: tuple[Argument, ...] = ()
    advice: str = ""


def of(record: Record) -> UserError | None:
    """Exception that ended a record; None if it was not of the user's program."""
    raised = record.raised
    if raised is None or raised.error in OWN_ERRORS:
        return None
    #     while tracing       the operator, with the shapes of its inputs
    #     in a kernel         the operator that takes indices, if there is one; so where the frame ran as written then
    #     anywhere else       only the line
    found = _while_traced(record, raised) if raised.error != "RecursionError" else None  # not raised by an operator
    if found is None and raised.stack:
        found = _in_a_kernel(record, raised) or _run_as_written(record, raised) or _elsewhere(record, raised)
    if found is None:
        return None
    return replace(found, advice=_advice(found))


def marks(record: Record, frame: CompiledFrame) -> StackLine | None:
    """The line of a frame's own source that raised; of several frames of one function, of the last one."""
    found = of(record)
    if found is None or record.raised is None:
        return None
    inner = () if found.location is None else (found.location,)
    at = links.own_location(frame, (*inner, *reversed(record.raised.stack)))
    alike = [each for each in record.frames if (each.file, each.first_line) == (frame.file, frame.first_line)]
    return at if at is not None and alike[-1] is frame else None


def marked(
    record: Record, frame: CompiledFrame, lines: tuple[annotated_source.SourceLine, ...]
) -> tuple[annotated_source.SourceLine, ...]:
    """The lines of a frame's source, with the exception at the one that raised it and carets below."""
    at, found = marks(record, frame), of(record)
    if at is None or found is None:
        return lines
    note = annotated_source.Note("error", f"raises {found.error}: {found.message.partition(chr(10))[0].rstrip('.')}")
    return tuple(
        replace(line, notes=(note, *line.notes), carets=_carets(line.code, at)) if line.number == at.line else line
        for line in lines
    )


def _carets(code: str, at: StackLine) -> str:
    indent = len(code) - len(code.lstrip())
    return " " * indent + (annotated_source.carets(at) or "^" * len(code.strip()))


def _while_traced(record: Record, raised: Raised) -> UserError | None:
    """The operator that failed on its inputs when it was traced, at a line of the traceback."""
    for frame in reversed(record.frames):
        failed = frame.failed
        if failed is not None and failed.stack and frame.instead == RAISED and raised.error == TRACED:
            # The frame did not run, so no traceback contains it; but the line that called a library's module is in the
            # traceback.
            location = (links.to_users_line(failed.stack) or raised.stack or failed.stack)[-1]
            return _traced(failed, location, -1)
        if failed is not None and _is_within(failed, frame, raised):
            return replace(_traced(failed, raised.stack[-1], len(raised.stack) - 1), message=raised.message)
        if failed is not None and (at := _raised_at(failed, raised)) is not None:
            found = _traced(failed, at, len(raised.stack) - 1)
            return found if raised.error == TRACED else replace(found, error=raised.error, message=raised.message)
    return None


def _raised_at(failed: FailedCall, raised: Raised) -> StackLine | None:
    """The line of a failed operator's stack at which the exception was raised; None if it was another line."""
    # If a line is in the traceback several times (a recursion), its innermost entry is used.
    lines = {(line.file, line.line): index for index, line in enumerate(raised.stack)}
    at = [line for line in failed.stack if (line.file, line.line) in lines]
    if not at or lines[at[-1].file, at[-1].line] != len(raised.stack) - 1:
        return None
    return at[-1] if _is_same_expression(at[-1], raised.stack[-1]) else None


def _is_within(failed: FailedCall, frame: CompiledFrame, raised: Raised) -> bool:
    """True for an operator in a library's module that was called outside of functions: no line of it is the user's."""
    is_own = bool(links.to_users_line(failed.stack))
    outside = bool(raised.stack) and raised.stack[-1].function == "<module>"
    return outside and not is_own and frame.instead == EAGER and failed.error == raised.error


def _is_same_expression(one: StackLine, other: StackLine) -> bool:
    """True unless two locations in one line are known to be different expressions: tracing and eager mode may disagree
    on which of them fails first.
    """
    known = one.column >= 0 and other.column >= 0
    return not known or (one.column, one.end_column) == (other.column, other.end_column)


TRACED = "TorchRuntimeError"
"""Exception of the compiler for an operator that fails on its inputs."""


def _traced(failed: FailedCall, location: StackLine, position: int) -> UserError:
    operator = facts.short_target(failed.operator)
    return UserError(failed.error, failed.message, location, position, operator, failed.arguments)


_INDEXING = frozenset({
    "embedding", "embedding_bag", "gather", "getitem", "index", "index_add", "index_copy", "index_fill", "index_put",
    "index_select", "nll_loss", "cross_entropy", "one_hot", "scatter", "scatter_add", "setitem", "take",
    "take_along_dim",
})  # fmt: skip


def _in_a_kernel(record: Record, raised: Raised) -> UserError | None:
    """The operator for a wrong index in a generated kernel: the only one in it that takes indices."""
    for frame in reversed(record.frames) if raised.kernel else ():
        kernels_run = frame.compiled_graph.kernels if frame.compiled_graph else ()
        kernels = [each.id for each in kernels_run if each.name.rpartition(".")[2] == raised.kernel]
        if not kernels or links.own_location(frame, raised.stack) is None:
            continue
        computed = links.frame_links(frame).captured(*kernels)
        takes = [node for node in _nodes(frame, computed) if facts.short_target(node.target).rstrip("_") in _INDEXING]
        # With two, it is unknown whose index was wrong: no operator is better than a wrong one.
        return _indexed(raised, frame, takes[0], -1) if len(takes) == 1 else None
    return None


def _run_as_written(record: Record, raised: Raised) -> UserError | None:
    """The operator for a wrong index in a graph, after which the frame ran eagerly: that of the line that raised."""
    for frame in reversed(record.frames) if raised.error in ("IndexError", "RuntimeError") else ():
        at = links.own_location(frame, tuple(reversed(raised.stack)))
        if at is None:
            continue
        takes = [
            node
            for node in (frame.graph.nodes if frame.graph else ())
            if facts.short_target(node.target).rstrip("_") in _INDEXING
            and (own := links.own_location(frame, node.stack)) is not None
            and own.line == at.line
            and _is_same_expression(own, at)
        ]
        return _indexed(raised, frame, takes[0], raised.stack.index(at)) if len(takes) == 1 else None
    return None


def _indexed(raised: Raised, frame: CompiledFrame, node: Node, position: int) -> UserError:
    tensors = [each for each in _nodes(frame, node.inputs) if each.shape is not None]
    arguments = tuple(Argument(each.source or each.name, each.shape, each.dtype, each.device) for each in tensors)
    location = links.own_location(frame, node.stack)
    return UserError(raised.error, raised.message, location, position, facts.short_target(node.target), arguments)


def _nodes(frame: CompiledFrame, ids: tuple[str, ...]) -> Iterator[Node]:
    return (node for node in (frame.graph.nodes if frame.graph else ()) if node.id in ids)


def _elsewhere(record: Record, raised: Raised) -> UserError:
    """The user's innermost line; if Python ran it after a break, the break has the columns."""
    known = {each.file for each in record.frames}
    position = next((index for index, each in reversed([*enumerate(raised.stack)]) if each.file in known), -1)
    # The innermost line of the user: inner lines are torch's, and not about the program.
    # -1 (no line is in a compiled file) selects the innermost line.
    position = position % len(raised.stack)
    location = raised.stack[position]
    if location.column < 0:
        lines = (each for frame in record.frames for broken in frame.breaks for each in reversed(broken.stack))
        location = next((one for one in lines if (one.file, one.line) == (location.file, location.line)), location)
    if location.column < 0:
        location = replace(location, column=0, end_column=len(location.code))
    return UserError(raised.error, raised.message, location, position)


# --- in words ------------------------------------------------------------------------------------


def call(user_error: UserError) -> str:
    """Call of the operator with its inputs; "" if unknown."""
    tensors = [each for each in user_error.arguments if each.shape is not None]
    if not user_error.operator or not tensors:
        return ""
    several = len({each.device for each in tensors}) > 1
    shown = [f"`{facts.readable(each.name)}` `{type_of(each, device=several)}`" for each in tensors]
    return f"`{user_error.operator}` is called with {', '.join(shown)}."


def type_of(argument: Argument, *, device: bool = False) -> str:
    """``f32[2, 16]``, or ``f32[2, 16] on cuda:0``."""
    node = Node("", "", "", "", "", shape=argument.shape, dtype=argument.dtype)
    return facts.type_of(node) + (f" on {argument.device}" if device else "")


def _advice(user_error: UserError) -> str:
    # The first matching row is used: rows for one operator come before rows for any.
    for error, pattern, operators, text in _ADVICE:
        found = re.search(pattern, user_error.message)
        if found and user_error.error in error.split() and (not operators or user_error.operator in operators.split()):
            return text.format(*found.groups(), **{name: value or "?" for name, value in found.groupdict().items()})
    return ""


_ANY = ""
_ADVICE: tuple[tuple[str, str, str, str], ...] = (
    # Class of the exception, its text, the operator (any where ""), what to change.
    ("RuntimeError", "shapes cannot be multiplied|same reduction dim", "linear",
     ("The last dimension of the input must be the layer's `in_features`: "
     "change `in_features`, or what comes before the layer.")),
    ("RuntimeError", "cannot be multiplied|same reduction dim|size mismatch|Expected size for first two dim", _ANY,
     ("A matrix product expects the last dimension of the first tensor and the last but one of the second to be equal: "
     "transpose one of them (`.mT`), or change a size.")),
    ("RuntimeError", "Given groups=.*to have .* channels", _ANY,
     "The input's channels (its second dimension) must be the layer's `in_channels`: change one of the two."),
    ("RuntimeError", "subscript .* has size", "einsum",
     "A letter stands for one size: compare the sizes that the operands have at this letter."),
    ("RuntimeError", "number of subscripts", "einsum",
     "Each operand needs a letter for each of its dimensions; `...` stands for several."),
    ("RuntimeError", "einsum", "einsum",
     "The equation has letters, a comma between operands, and one `->`: `'ij,jk->ik'`."),
    ("RuntimeError", "must match the size of tensor|broadcast|not broadcastable|must match the existing size", _ANY,
     ("Shapes broadcast from the right: each pair of sizes must be equal, or one of them 1. "
     "Insert a dimension with `unsqueeze`, or change a shape.")),
    ("TypeError", "Concatenation operation is not implemented for NumPy arrays", "add",
     ("The shapes of the array and of the tensor do not broadcast: from the right, each pair of sizes must be equal, "
      "or one of them 1.")),
    ("RuntimeError", "target dtype|expected scalar type Long", "cross_entropy nll_loss",
     "The target holds class indices: convert it with `target.to(torch.int64)`."),
    ("RuntimeError", "1D target tensor expected", "cross_entropy nll_loss",
     ("The target is one class index for each row: without a dimension of size 1 (`.squeeze(1)`), and whole numbers "
      "(`.long()`).")),
    ("RuntimeError", "scalar types: Long|Expected dtype int32/int64 for index|used as indices must be", _ANY,
     "Indices are whole numbers: convert them with `.long()`."),
    ("RuntimeError", "same dtype|expected scalar type|Found dtype|must have the same dtype", _ANY,
     "Both tensors must have one dtype: convert one with `.to(other.dtype)`."),
    ("RuntimeError", "same device|expected device|on device|two devices", _ANY,
     "All tensors must be on one device: move them with `.to(device)`."),
    ("RuntimeError NotImplementedError", "could not infer output dtype|floating point or complex", _ANY,
     "Whole numbers have no such result: convert the tensor with `.float()` first."),
    ("RuntimeError", "leaf Variable that requires grad", _ANY,
     ("A leaf that requires gradients must not change in place: compute a new tensor, "
     "or change it inside of `with torch.no_grad():`.")),
    ("RuntimeError", "Sizes of tensors must match except in dimension", _ANY,
     ("The shapes may differ only in the dimension `dim` along which the tensors are joined: choose another `dim`, "
     "or change a shape.")),
    ("RuntimeError", "must have same number of dimensions", _ANY,
     "All tensors must have as many dimensions: add one with `.unsqueeze(...)`, or use `torch.stack`."),
    ("RuntimeError", "split_sizes to sum", _ANY, "The sizes must add up to the size of the dimension that is split."),
    ("RuntimeError", "permute.*number of dimensions", _ANY, "`permute` names each dimension of the tensor, once."),
    ("RuntimeError", "must be a 3D tensor", "bmm baddbmm",
     "`torch.bmm` multiplies batches of matrices, of 3 dimensions; `@` takes single matrices, too."),
    ("RuntimeError", "Expected .* input to conv", _ANY,
     ("Dimensions are missing: a batch of images is (batch, channels, height, width); `.unsqueeze(0)` adds a batch "
      "of one.")),
    ("RuntimeError", "Kernel size can't be greater", _ANY,
     "The kernel is larger than the padded input: use a smaller `kernel_size`, more `padding`, or larger images."),
    ("RuntimeError", "normalized_shape", _ANY,
     "The last dimensions of the input must be the layer's `normalized_shape`."),
    ("ValueError", "more than 1 value per channel", _ANY,
     "Batch normalization needs more than one sample while it trains: use a larger batch, or call `.eval()` first."),
    ("RuntimeError", "stack expects each tensor to be equal size", _ANY,
     "`torch.stack` expects tensors of the same shape: `torch.cat` joins tensors that differ along one dimension."),
    ("RuntimeError", "is invalid for input of size", _ANY,
     "The new shape must have as many elements as the old one; -1 stands for one size that follows from the others."),
    ("RuntimeError", "view size is not compatible", _ANY,
     "A view needs another layout of memory than this tensor has: use `.reshape(...)`, which copies where it must."),
    ("RuntimeError", r"Can't call numpy\(\) on Tensor that requires grad", _ANY,
     "NumPy knows no gradients: write `.detach().numpy()`."),
    ("RuntimeError", "Boolean value of Tensor with", _ANY,
     "A condition needs one truth value: say `.all()` or `.any()`, or choose by element with `torch.where`."),
    ("RuntimeError", "grad can be implicitly created only for scalar", _ANY,
     "`backward()` starts at one number: reduce to one first, as with `.sum().backward()` or `.mean().backward()`."),
    ("RuntimeError", "does not require grad and does not have a grad_fn", _ANY,
     "Nothing that it was computed from requires gradients: make a parameter, or pass `requires_grad=True`."),
    ("RuntimeError", "backward through the graph a second time", _ANY,
     "The first `backward()` freed what it needed: compute the loss again, or pass `retain_graph=True`."),
    ("RuntimeError ValueError", "elements cannot be converted to Scalar|only one element tensors", _ANY,
     "Only a tensor with one element is one number: index or reduce it first, or use `.tolist()`."),
    ("RuntimeError AssertionError", "CUDA|NVIDIA|XPU|not linked with support for", _ANY,
     "This torch or this machine lacks the device: ask `torch.cuda.is_available()` before a tensor is moved to a GPU."),
    ("IndexError", "out of range|out of bounds", "embedding",
     "An index must be smaller than the embedding's `num_embeddings`: enlarge the table, or check the indices."),
    ("IndexError", "out of range|out of bounds", "cross_entropy nll_loss",
     "A class index must be smaller than the number of classes, the size of the input's dimension 1."),
    ("IndexError", "shape of the mask", _ANY,
     "A mask must have the sizes of the dimensions that it selects from: compare the two shapes."),
    ("IndexError", "Dimension out of range", _ANY,
     "`dim` must name a dimension that the tensor has: they count from 0, or from -1 backwards."),
    ("IndexError", "only integers, slices", _ANY,
     "An index is a whole number, a slice, or a tensor of whole numbers or booleans: convert it, as with `int(...)`."),
    ("IndexError", "too many indices", _ANY, "There must not be more indices than the tensor has dimensions."),
    ("RuntimeError", "index .* out of bounds", "gather scatter scatter_add scatter_reduce index_add",
     "An index counts from 0, and must be smaller than the size of the dimension; here none counts from the end."),
    ("IndexError", "out of range|out of bounds", _ANY,
     "Indices count from 0, so that the last one is the size less 1; -1 is the last one, too."),
    ("UnboundLocalError", _ANY, _ANY,
     "The variable has no value here: no line that ran gave it one, or `del` took it away. Give it one on every path."),
    ("NameError", r"name '(\w+)' is not defined|variable '?(\w+)", _ANY,
     "The name is not defined where the line runs: check its spelling, or define it before."),
    ("TypeError", "unsupported operand.*NoneType|NoneType", _ANY,
     "One of the values is `None`: a function without a `return` returns `None`."),
    ("AttributeError", "'NoneType' object has no attribute", _ANY,
     "The value is `None`: a function without a `return` returns `None`; `.grad` is `None` before `backward()`."),
    ("TypeError", "only integer tensors of a single element can be converted to an index", "mul imul",
     ("`*` repeats texts and lists, and needs a whole number for that: convert the other value first, as with "
      "`float(...)` or `torch.tensor(...)`.")),
    ("TypeError", "can only concatenate str", _ANY,
     "Text is joined with text: convert the other value with `str(...)`, or write an f-string."),
    ("TypeError", "unsupported operand", _ANY,
     ("The operator does not take values of these two types: convert one; a function or a module is called with "
      "parentheses first.")),
    ("TypeError", "object is not callable", _ANY,
     "Only functions, classes and modules can be called: an element is read with brackets, as in `x.shape[0]`."),
    ("TypeError", r"takes 0 positional arguments but 1 was|forward\(\) takes 1 positional argument but 2 were", _ANY,
     "A method's first parameter is `self`: `def forward(self, x):`."),
    ("TypeError", r"__init__\(\) takes", _ANY,
     "The class is called, not an object of it: make one first, `net = Net()`, and call that, `net(x)`."),
    ("AttributeError", r"before Module\.__init__\(\)|has no attribute '_(modules|parameters)'", _ANY,
     "A module's `__init__` begins with `super().__init__()`."),
    ("AttributeError", "has no attribute", _ANY,
     "There is no such attribute: check the spelling; `dir(...)` lists the attributes that there are."),
    ("TypeError", r"\(\) (missing|got an unexpected keyword|received an invalid)", "softmax sum mean cat zeros ones",
     "Check the keyword arguments and their order: `help(...)` shows what the operator takes."),
    ("TypeError", "unexpected keyword|got an unexpected", _ANY,
     "There is no such keyword: check its spelling; `help(...)` shows what the function takes."),
    ("TypeError", "positional argument|required positional|multiple values", _ANY,
     "The number of arguments does not fit the definition: compare the call with the `def` line."),
    ("TypeError", "must be tuple of ints|must be int|must be integers|not float|interpreted as an integer", _ANY,
     "A size or an index is a whole number: divide with `//`, or convert with `int(...)`."),
    ("TypeError", r"argument '(\w+)'.*must be Tensor, not numpy", _ANY,
     "`{0}` is an array of NumPy: `torch.from_numpy(...)` makes a tensor of it."),
    ("TypeError", r"argument '(\w+)'.*must be ([\w.]+)", _ANY, "`{0}` must be of type `{1}`: convert it."),
    ("NotImplementedError", r"\[Module(List|Dict)\]", _ANY,
     "A `Module{0}` only holds modules: call each of them, or use `nn.Sequential`."),
    ("NotImplementedError", 'missing the required "forward"', _ANY,
     "The class needs a method that is called `forward`: check its name and its indentation."),
    ("NotImplementedError", "not implemented for '(Long|Int|Bool)'", "cross_entropy nll_loss binary_cross_entropy",
     ("The first argument holds the predictions, which are floating point numbers, the second one the target: "
      "perhaps the two are swapped.")),
    ("NotImplementedError", "not implemented for '(\\w+)'", _ANY,
     "There is no such operator for tensors of type `{0}`: convert the tensor, as with `.float()`."),
    ("ModuleNotFoundError", "No module named", _ANY,
     "The module is not installed here: check its spelling, or install the package that contains it, with `%pip`."),
    ("FileNotFoundError", _ANY, _ANY,
     "There is no such file: a relative path begins at the current folder, which `os.getcwd()` returns."),
    ("KeyError", _ANY, _ANY, "The mapping has no such key: `.keys()` lists those that there are."),
    ("ZeroDivisionError", _ANY, _ANY, "The number that is divided by is 0: what is it computed from?"),
    ("RecursionError", _ANY, _ANY,
     "The function calls itself without an end: return before the inner call as soon as a condition holds."),
    ("ValueError", "not enough values to unpack|too many values to unpack", _ANY,
     "There must be as many names on the left as there are values on the right."),
    ("ValueError", "Expected input batch_size", _ANY,
     "The input and the target must have as many rows: compare their first dimensions."),
)  # fmt: skip
"""The first row that fits is used."""
