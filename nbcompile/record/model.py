"""Record of a compilation, as plain data.

Every picture nbcompile draws is a function of these dataclasses and of nothing
else. They hold only ``str int float bool None tuple`` and each other: no
tensor, frame, module or code object, so a record can be kept, compared,
written as JSON and read back in another process. Times are separate, in
:class:`Record.timings`, so that two records of one compile are equal.

    Record -> CompiledFrame ("0/0") -> Graph -> Node ("0/0.n3")
                                    -> Guard, Break, Kernel, ...

Ids are short, stable and sort in order. The compile id ``"3/1"`` reads
"fourth code object that was caught, its second cache entry", as in torch's
logs; everything inside a frame prefixes its id with the compile id.

In torch: nothing holds this in one object; TORCH_TRACE and tlparse recover it
from text. Read next: nbcompile/record/recorder.py
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class StackLine:
    """One line of a user stack, outermost first in every tuple of them.

    ``column`` and ``end_column`` are 0-based character columns of the expression inside ``code`` (the stripped source
    line), or ``-1`` if they are unknown; a view underlines that range with carets.
    """

    file: str
    line: int
    function: str
    code: str = ""
    column: int = -1
    end_column: int = -1
    offset: int = -1
    """Offset of the instruction in the function's bytecode; -1 if unknown."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: a condition that compiled code relies on, and that is checked before it runs."""

    id: str
    """``"0/0.g3"``"""
    kind: str
    """``"TENSOR_MATCH"``, ``"EQUALS_MATCH"``, ... (capture/guard.py)."""
    source: str
    """The guarded value as an expression: ``L['self'].weight``; "" if global."""
    condition: str
    """The check as Python text: ``len(L['xs']) == 3``."""
    words: str = ""
    """The check in plain words: ``xs has 3 items``."""
    stack: tuple[StackLine, ...] = ()
    """User stack of the code that needed the guard."""
    test: str = ""
    """The check as a tree (trees.py) over the frame's readings, as JSON."""


PREDICTED_DIMS = 5
"""Number of dims that a page can predict for, even if no call had a tensor with so many."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that guards read from the call that was compiled."""

    name: str
    """``L['x'].size()[0]``, ``type(L['x'])``, ``process.grad_mode``"""
    value: str
    """A number, a text, a truth value or None, as Python writes it."""
    varies: bool = False
    """True if automatic dynamic shapes would make it a symbol when it differs in another call."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of an FX graph."""

    id: str
    name: str
    op: str
    """``placeholder call_function call_method get_attr output``..."""
    target: str
    """``torch.sin``, ``aten.add.Tensor``, ``relu`` (a method's name)."""
    arguments: str
    """The arguments as text: ``(l_x_, 2)``."""
    inputs: tuple[str, ...] = ()
    """Ids of the nodes it reads."""
    shape: tuple[str, ...] | None = None
    """Sizes as text (``"3"``, ``"s77"``); None where it is no tensor."""
    stride: tuple[str, ...] | None = None
    dtype: str = ""
    device: str = ""
    source: str = ""
    """Expression that the value of a placeholder is read from."""
    stack: tuple[StackLine, ...] = ()
    from_nodes: tuple[str, ...] = ()
    """Ids of the nodes of an earlier graph that it was derived from."""
    modules: tuple[str, ...] = ()
    """The modules whose ``forward`` it was created in, outermost first: ``L['self'].layers.0``."""


@dataclass(frozen=True, slots=True)
class Argument:
    """Argument of an operator."""

    name: str
    """The user's name for it, an expression that reads it (``L['self'].weight``), or the node's name; for a keyword
    argument, the keyword."""
    shape: tuple[str, ...] | None = None
    """None where it is no tensor."""
    dtype: str = ""
    device: str = ""
    value: str = ""
    """``repr`` of a value that is not a tensor."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """An operator that raises for its inputs during tracing, and would raise in eager mode, too."""

    operator: str
    """Name of the operator, as :attr:`Node.target`."""
    arguments: tuple[Argument, ...]
    error: str
    """The class of the exception."""
    message: str
    stack: tuple[StackLine, ...] = ()
    node: str = ""
    """Id in :attr:`CompiledFrame.unfinished`; "" where the frame was compiled up to it."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph at one stage of the compilation."""

    id: str
    """``"0/0.captured"``, ``"0/0.forward"``, ..."""
    stage: str
    """``captured``, ``traced`` (before a pass rewrote it), ``inference``, ``joint``, ``forward`` or ``backward``;
    ``unfinished`` where tracing ended before the graph was complete."""
    nodes: tuple[Node, ...]
    code: str
    """The graph as readable Python."""
    part: str = ""
    """The part of the captured graph that it was derived from (a name of :class:`Part`); "" where there is one."""


@dataclass(frozen=True, slots=True)
class CarriedValue:
    """A live value that passes from a frame into its resume function."""

    name: str
    """The local's name, or ``___stack0`` for an operand."""
    recipe: str
    """Expression by which the residual program reconstructs it."""
    kind: str
    """``tensor``, ``constant``, ``list``, ... in words."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An object that a residual program refers to by a name of its own: ``__print`` is ``print`` of ``builtins``."""

    name: str
    module: str = ""
    """Module that it is imported from; "" if it cannot be imported."""
    path: str = ""
    """Name there; "" for the module itself."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value on the operand stack while the rest of an expression is evaluated: ``a * 2`` in ``a * 2 + g(b)``."""

    value: str
    """The tracer's view of it: ``TensorVariable()``."""
    made_by: StackLine
    """The part of the source whose value it is."""


@dataclass(frozen=True, slots=True)
class Break:
    """Graph break: the reason why a graph ended before its frame (or why the frame was skipped)."""

    id: str
    kind: str
    """Our stable id: ``NB0007``."""
    title: str
    """torch's ``gb_type``, if torch has such a break."""
    explanation: str
    hints: tuple[str, ...]
    context: str
    """The developer's view: reprs of trackers, names."""
    stack: tuple[StackLine, ...]
    """The user's stack: the compiled frame first, the breaking line last."""
    reason: str = ""
    """"when attempting to trace CALL: a function call" and the like."""
    gb_id: str = ""
    """torch's own id, ``GB0007``, where there is one."""
    first_seen: str = ""
    """Id of the earlier break with the same cause, "" if this is the first."""
    operands: tuple[Operand, ...] = ()
    """Operand stack of the frame at the break, bottom first."""
    traced: tuple[str, ...] = ()
    """The last instructions that were traced; only with ``config.verbose``."""
    callee: str = ""
    """Callee of the breaking line, as the user wrote it: ``torch.save``; "" if it is not a call."""


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """The rest of a frame, as a function of its live values."""

    name: str
    """``torch_dynamo_resume_in_f_at_12`` (torch's spelling)."""
    line: int
    """The line of the user's file where it continues."""
    carried: tuple[CarriedValue, ...]
    source: str = ""
    """The remaining lines of the user's function."""
    branch: str = ""
    """``"if true"`` or ``"if false"`` for the two sides of a data-dependent jump."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One side effect that the residual program replays."""

    kind: str
    """``attribute``, ``item``, ``cell``, ``global``, ``list``, ``dict``..."""
    target: str
    """The mutated object as an expression."""
    code: str
    """The replaying statement(s), as they run."""
    stack: tuple[StackLine, ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """One result of the loop-level IR."""

    id: str
    name: str
    """``buf0``."""
    kind: str
    """``pointwise``, ``reduction``, ``extern``, ``view``, ..."""
    shape: tuple[str, ...]
    dtype: str
    body: str
    """The IR, printed."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FusionDecision:
    """Fusion decision for two buffers, with its reason."""

    first: str
    second: str
    fused: bool
    reason: str
    saved: int | None = None
    """Bytes of memory traffic that the fusion saves; None: they depend on sizes that are known at run time only."""


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One line of generated code and the nodes that it belongs to."""

    line: int
    """1-based, in :attr:`Kernel.source`."""
    nodes: tuple[str, ...]
    role: str = "computes"
    """``computes`` the nodes, ``surrounds`` lines that do (a loop, a type, an argument), or is ``glue`` without
    nodes."""


@dataclass(frozen=True, slots=True)
class GpuLine:
    """Costs of one line of a kernel on a GPU, summed over all threads."""

    line: int
    """1-based, in :attr:`Kernel.source`."""
    instructions: int = 0
    """PTX instructions executed by warps."""
    moved: int = 0
    """Bytes of global memory, in sectors of 32."""
    least: int = 0
    """Bytes of the sectors that would hold what the threads use."""
    ptx: tuple[str, ...] = ()
    """The PTX instructions of the line, each name once, with a count: ``4 ld.global.v4.b32``."""
    sass: tuple[str, ...] = ()
    """The machine instructions that ptxas generated from them: ``2 LDG.E.128``."""


@dataclass(frozen=True, slots=True)
class GpuTile:
    """The programs (blocks of threads) that access a tensor, sampled in a grid, in the order of its memory."""

    buffer: str
    access: str
    """``read``, ``written``, or both."""
    height: int
    width: int
    rows: int
    """Rows of the grid."""
    columns: int
    programs: tuple[int, ...] = ()
    """Programs by cell, row by row; -1 for none, -2 for several."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """Figures of a kernel that was cross-compiled for an absent GPU."""

    chip: str
    """``sm_90``"""
    registers: int
    """Registers of a thread."""
    spills: int
    """Bytes of a thread that are spilled from registers."""
    shared_bytes: int
    """Shared memory of a block."""
    threads: int
    """Threads of a block."""
    occupancy: float
    """Fraction of a multiprocessor's threads that registers and shared memory allow."""
    blocks: int = 0
    """Blocks of the simulated launch; 0 if none was simulated."""
    coalescing: float = 0.0
    """Fraction of the bytes moved that was used."""
    moved: int = 0
    """Bytes of global memory, in sectors of 32."""
    least: int = 0
    """Bytes of all tensors that are read or written, each counted once."""
    predicted_us: float = 0.0
    """Microseconds, by a model (gpu/predict.py): nothing ran on a GPU."""
    roofline_us: float = 0.0
    """Microseconds for :attr:`least` at the full bandwidth of the memory, and a launch."""
    limit: str = ""
    """Bottleneck in the model: ``memory``, ``issue`` (of instructions), ``latency`` or ``matrix`` (units)."""
    instructions: int = 0
    """PTX instructions executed by warps."""
    peak_bytes: float = 0.0
    """Bytes of memory a microsecond that the GPU reaches."""
    peak_instructions: float = 0.0
    """Instructions of warps a microsecond that it can issue."""
    lines: tuple[GpuLine, ...] = ()
    tiles: tuple[GpuTile, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One implementation of a matrix product and its epilogue."""

    name: str
    """The operator, for the library; or a tile: ``64x64x32, 4 warps, 3 stages``."""
    microseconds: float
    measured: bool = False
    """True if it ran on the GPU; otherwise a model predicts its time (gpu/product_times.py)."""


@dataclass(frozen=True, slots=True)
class Autotuning:
    """Candidates of a matrix product, the chosen one first."""

    operator: str
    sizes: tuple[str, ...]
    """Sizes of the factors: ``256x512``."""
    strides: tuple[str, ...]
    """``[512, 1]``."""
    dtypes: tuple[str, ...]
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated kernel, or one call of an operator of ATen."""

    id: str
    name: str
    language: str
    """``cpp``, ``triton``, or ``aten`` for an operator that ATen runs."""
    source: str
    buffers: tuple[str, ...] = ()
    from_nodes: tuple[str, ...] = ()
    lines: tuple[KernelLine, ...] = ()
    reason: str = ""
    """Reason why no kernel was generated, for ``aten``."""
    gpu: Gpu | None = None
    """GPU figures, if it was compiled for a target (``options={"target": "sm_90"}``)."""
    autotuning: Autotuning | None = None
    """Candidates of the matrix product, where there were several."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """Live range of a buffer. Launches (kernels and extern calls, in order) are numbered from 1."""

    buffer: str
    size: str
    """Size in bytes: a number, or an expression of symbols."""
    first: int
    """The launch that writes it first."""
    last: int
    """The launch that reads it last; 0 if it is an output, or an output may be a view of it."""
    memory_of: str = ""
    """Buffer whose memory it reuses; "" if memory is allocated for it."""
    saved: bool = False
    """True if the forward graph saved it for this backward graph, which frees it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of the captured graph of a DistributedDataParallel module: the operators of one gradient bucket."""

    name: str
    """``submod_0``, as in torch."""
    nodes: tuple[str, ...]
    """Operators, by their ids in the captured graph, in order."""
    parameters: tuple[str, ...]
    """The placeholders of its parameters that need a gradient, by their ids."""
    size: int
    """Bytes of their gradients."""
    limit: int
    """Bytes that fill the bucket."""
    late: int = 0
    """Operators that it has although the bucket was full: no part could begin there."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """Compiled graph: the backend's results, from buffers to kernels."""

    backend: str
    graphs: tuple[Graph, ...] = ()
    """The ATen graphs, in order of creation."""
    buffers: tuple[Buffer, ...] = ()
    fusions: tuple[FusionDecision, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    wrapper: str = ""
    """The program that allocates and launches, as text."""
    notes: tuple[str, ...] = ()
    """Remark for the reader: "no C++ compiler: the graph runs through ATen"."""
    lifetimes: tuple[Lifetime, ...] = ()
    """The memory plan, graph by graph."""
    target: str = ""
    """The GPU that it was compiled for, whose code a simulator runs: ``sm_90``; "" for this machine."""
    parts: tuple[Part, ...] = ()
    """The parts at DDP's gradient buckets, in order; one where the whole graph fits; none without DDP."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """Assumption of the trace about a symbol."""

    condition: str
    """``s77 > 5``"""
    stack: tuple[StackLine, ...] = ()
    """The user's code that required it."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size or number that stays symbolic: the card of ``s77``."""

    name: str
    sources: tuple[str, ...]
    """Sources that it can be read from; none for an unbacked symbol (``u0``)."""
    hint: str
    """The value of the traced call, by which branches were taken; "" if unbacked."""
    range: str
    """``[2, int_oo]``"""
    origin: str
    """Reason why it is symbolic: ``mark_dynamic``, ``automatic dynamic``, ``the run``, ..."""
    refinements: tuple[Refinement, ...] = ()

    @property
    def unbacked(self) -> bool:
        """True if the number is known at run time only."""
        return not self.hint


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice: a change that would have prevented a recompilation."""

    text: str
    verified: bool = False
    """True if it was tried: with it, the entry that was created for the earlier call accepts this one, too."""


@dataclass(frozen=True, slots=True)
class FailedGuard:
    """The guard of an existing cache entry that failed for a call."""

    compile_id: str
    """The entry whose guard failed."""
    reason: str
    """``tensor 'x' size mismatch at index 0. expected 3, actual 4``."""
    guard: str = ""
    """Id of the guard, where it is known."""
    stack: tuple[StackLine, ...] = ()
    expected: str = ""
    """Expected value, as text; "" if ``reason`` contains it."""
    actual: str = ""
    """The value in this call."""
    source: str = ""
    """The value that the guard is about, as an expression."""
    note: str = ""
    """Origin of a guard that no line of the user's code needed (specialisation of 0 and 1, equal sizes)."""
    advice: Advice | None = None
    others: tuple[str, ...] = ()
    """The reasons of the other guards of the entry that fail, too (``config.recompiles_verbose``)."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of bytecode, as CPython runs it."""

    offset: int
    opcode: str
    argument: str
    line: int
    """Line of the user's file; 0 if none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of the symbolic interpreter: the state before it, and what it added."""

    function: str
    depth: int
    """0 in the frame itself, 1 in a function that it inlined, ..."""
    offset: int
    opcode: str
    argument: str
    line: int
    stack: tuple[str, ...]
    """The symbolic operand stack before the instruction, bottom first."""
    text: str = ""
    """The line of the program."""
    locals: tuple[str, ...] = ()
    """The locals before the instruction: ``x = TensorVariable(...)``."""
    guards: tuple[str, ...] = ()
    """The guards that it required: ``TENSOR_MATCH L['x']``."""
    nodes: tuple[str, ...] = ()
    """The nodes that it put into the graph: ``mul = mul(l_x_, 2)``."""


@dataclass(frozen=True, slots=True)
class CompiledFrame:
    """One attempt to compile one call of one code object."""

    id: str
    """The compile id, ``"0/0"``."""
    function: str
    """``f``, or the name of a resume function."""
    file: str
    first_line: int
    source: str
    """The text of the user's function (dedented), "" where it is unknown."""
    status: str
    """``compiled``, ``skipped`` or ``failed``."""
    cause: str
    """``first call``, ``recompiled`` or ``stance``..."""
    method: str = ""
    """``Net.forward``, where a decorator's wrapper of another name is that method of its first argument's class."""
    called_from: str = ""
    """Compile id of the frame whose residual program called it first."""
    resumes: str = ""
    """Compile id of the frame that a resume function continues."""
    place: int = 0
    """Index among that frame's resume functions."""
    failed_guards: tuple[FailedGuard, ...] = ()
    """The failed guard of each existing entry, newest first, for a recompilation."""
    graph: Graph | None = None
    """The captured graph; None if the frame called no operator, or was not traced to an end."""
    unfinished: Graph | None = None
    """Partial graph of a frame that was not compiled, up to the point where tracing ended."""
    failed: FailedCall | None = None
    """The operator that ended tracing, or the graph, because it fails on its inputs."""
    compiled_graph: CompiledGraph | None = None
    guards: tuple[Guard, ...] = ()
    readings: tuple[Reading, ...] = ()
    """Values that the guards of this code object (of this entry and older ones) read, in this call."""
    recompile_limit: int = 0
    """Recompilation limit: the largest number of cache entries."""
    symbols: tuple[Symbol, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    breaks: tuple[Break, ...] = ()
    """Graph breaks: at most one that ended the graph; more when a frame was skipped."""
    resume_functions: tuple[ResumeFunction, ...] = ()
    residual: str = ""
    """Residual program, exactly as it runs."""
    kept: tuple[Kept, ...] = ()
    """Names that the residual program adds, except graphs and resume functions."""
    instructions: tuple[Instruction, ...] = ()
    """The frame's own bytecode."""
    residual_instructions: tuple[Instruction, ...] = ()
    """Bytecode of :attr:`residual`."""
    steps: tuple[Step, ...] = ()
    inlined: tuple[str, ...] = ()
    """Functions that were traced through, ``name (file:line)``, in order."""
    skip_reason: str = ""
    instead: str = ""
    """Outcome of a call for which no code was compiled: ``EAGER``, ``RAISED`` or ``INTERRUPTED``; "" otherwise."""
    store: str = ""
    """Disk cache: whether later processes can load the entry, or the reason why not; "" if the cache is off."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Duration of one stage of one frame."""

    frame: str
    stage: str
    seconds: float
    began: float = 0.0
    """Start on a clock that all timings of a process share."""
    inside: str = ""
    """The stage that contains it; ``EACH_CALL`` if it belongs to calls and not to the compilation. The total is the sum
    of the timings without a stage here."""


EACH_CALL = "each call"
LOADED = "loaded from the compile cache: another process compiled it"
"""The cause (:attr:`CompiledFrame.cause`) of a frame for which nothing was compiled in this process."""
LOADED_FROM_CACHE = "loaded from the compile cache: this process compiled it before"
"""The cause where the code object is a new one (a cell ran twice), and the same code was compiled for an older one."""
FROM_STORE = (LOADED, LOADED_FROM_CACHE)

EAGER = "eager"
"""The call ran eagerly, and what it called was compiled where that was possible."""
RAISED = "raised"
"""The compiler raised (``fullgraph=True``, for instance): nothing of the call ran."""
INTERRUPTED = "interrupted"
"""Ctrl-C ended the compilation: nothing of the call ran."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended what was recorded (a cell, a call), as the user sees it."""

    error: str
    """Class of the exception."""
    message: str
    stack: tuple[StackLine, ...] = ()
    """The user's lines, outermost first: neither torch's nor the compiler's own."""
    kernel: str = ""
    """The generated kernel that raised it, if one did."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a compiled function from outside, or some in a row with the same outcome."""

    code: str
    """The first part of the compile ids of its code object: ``"0"``."""
    entry: str
    """Compile id of the entry that ran; "" where the function ran as Python."""
    compiled: bool = False
    """True if no entry accepted the call, and this one was compiled for it."""
    times: int = 1
    function: str = ""
    """The function's own name."""
    reason: str = ""
    """Reason why it ran eagerly, if known."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Environment of the record: versions and machine."""

    python: str = ""
    torch: str = ""
    nbcompile: str = ""
    device: str = "cpu"
    compiler: str = ""
    """``g++ 12.2.0``, or "" if none was found."""


@dataclass(frozen=True, slots=True)
class Record:
    """All results of compiling one function (or one cell)."""

    function: str
    environment: Environment = field(default_factory=Environment)
    frames: tuple[CompiledFrame, ...] = ()
    """Frames in the order in which compilation began."""
    timings: tuple[Timing, ...] = field(default=(), compare=False)
    calls: tuple[Call, ...] = ()
    """The calls of compiled functions during the recording, in order."""
    raised: Raised | None = None
    """Exception that ended the program, if any."""
    schema: int = SCHEMA
