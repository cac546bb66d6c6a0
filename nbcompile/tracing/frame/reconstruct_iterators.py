"""Reconstruction of the iterators of builtins, with their positions, when they outlive the graph.

    m = map(f, xs); next(m)        traced as the generator polyfills.map_, which waits at its yield
    graph_break(); list(m)         Python continues with  map(f, <the rest of iter(xs)>)

Remaining items are not computed: they may depend on what happens until then. A generator that has not started, of the
program itself too, is created again by the call that created it. One of the program that is suspended at a yield
becomes that of a function which begins there, as a resume function begins at a break. An iterator that is neither new
nor has a row here cannot be reconstructed.

In torch: ZipVariable.reconstruct and its like in torch/_dynamo/variables/iter.py.
Read next: nbcompile/tracing/polyfills/builtins.py
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, GeneratorType
from typing import TYPE_CHECKING, Any

from nbcompile.bytecode.flow import handled_slots, live_locals
from nbcompile.capture.recipe import Call, Constant, Recipe, WaitingGenerator
from nbcompile.tracing.polyfills import builtins as polyfills, itertools as more_polyfills
from nbcompile.tracing.protocol import Reconstructor
from nbcompile.tracing.variables.base import NullVariable, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.iterators import moved
from nbcompile.tracing.variables.mappings import DictVariable

if TYPE_CHECKING:
    from nbcompile.tracing.frame.inlining import GeneratorVariable

Parts = tuple[list[VariableTracker], dict[str, VariableTracker]]
"""Arguments, by position and by name."""


def class_of(code: CodeType) -> type:
    """The class of the iterators that a call of the code makes, as ``type(iterator)`` gives it."""
    return _CLASSES.get(code, GeneratorType)


def remade(generator: GeneratorVariable, reconstruction: Reconstructor) -> Recipe | None:
    """The call that creates it again; None: there is none."""
    code = generator.frame.code
    if generator.failed:
        return None
    # The cases, in order:
    #     items fixed when it was created       the builtin with the same items, moved to where it was
    #     at its end                         one of its class that is at its end
    #     a row of _ROWS                     the builtin, over what is left of its arguments
    #     a polyfill that has not begun      the builtin's constructor with the same arguments
    #     a function's that has not begun    the call of that function
    #     any other                          None
    if code in _SETTLED:
        return _settled(generator, reconstruction)
    if generator.finished:
        return _finished(generator, reconstruction)
    row = _ROWS.get(code)
    if row is None and code in _CONSTRUCTORS and not generator.started:
        function: Callable[..., Any] = _CONSTRUCTORS[code]
        return _call(reconstruction, Constant(function, function.__name__), *_bound(generator))
    if row is None:
        return (_waiting if generator.started else _called)(generator, reconstruction)
    build, find_parts = row
    parts = find_parts(generator)
    if parts is None:
        return None
    return _call(reconstruction, Constant(build, build.__name__), *parts)


def _finished(generator: GeneratorVariable, reconstruction: Reconstructor) -> Recipe:
    """One of the same class without items."""
    code = generator.frame.code
    if code is more_polyfills.repeat.__code__:  # it shows its item
        return _call(
            reconstruction, Constant(itertools.repeat, "repeat"), [_local(generator, "object"), ConstantVariable(0)], {}
        )
    known: Callable[..., Any] | None = _ROWS[code][0] if code in _ROWS else _FINISHED.get(code, _CONSTRUCTORS.get(code))
    # A generator of the program has no constructor, but a name that can be read.
    if known is None:
        names = Constant(code.co_name, "name"), Constant(code.co_qualname, "qualname")
        return Call(Constant(finished_generator, "finished_generator"), names)
    nothing = tuple(Constant(value, "nothing") for value in _NOTHING.get(known, ()))
    return Call(Constant(known, known.__name__), nothing)


def _call(
    reconstruction: Reconstructor, function: Recipe, arguments: list[VariableTracker],
    keywords: dict[str, VariableTracker],
) -> Recipe:  # fmt: skip
    return Call(
        function,
        tuple(map(reconstruction.recipe, arguments)),
        tuple((name, reconstruction.recipe(each)) for name, each in keywords.items()),
    )


def _called(generator: GeneratorVariable, reconstruction: Reconstructor) -> Recipe | None:
    """The call of the function whose generator it is, with what its parameters are bound to."""
    frame = generator.frame
    if frame.function is None or frame.is_polyfill:
        return None
    return _call(reconstruction, reconstruction.recipe(frame.function), *_bound(generator))


def _waiting(generator: GeneratorVariable, reconstruction: Reconstructor) -> Recipe | None:
    """A generator of a function that begins at the ``yield`` at which it waits.

    Inside of a ``with`` its stack holds the exit function of the manager, which stays entered; inside of a ``try`` the
    ``yield`` has its handler. A handler has an exception to continue with, whose traceback cannot be created again.
    """
    frame = generator.frame
    instructions = frame.view.instructions
    is_plain = not frame.code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    if frame.is_polyfill or not is_plain or handled_slots(instructions)[frame.pc]:
        return None
    if any(isinstance(each, NullVariable) for each in frame.stack):
        return None
    generator.lives_on = True
    alive = live_locals(instructions, frame.pc, (*frame.code.co_varnames, *frame.code.co_cellvars))
    stack = tuple(map(reconstruction.recipe, frame.stack))

    def named(names: Iterable[str], values: Mapping[str, VariableTracker]) -> tuple[tuple[str, Recipe], ...]:
        return tuple((name, reconstruction.recipe(values[name])) for name in names)

    bound = (name for name, value in frame.locals.items() if name in alive and not isinstance(value, NullVariable))
    return WaitingGenerator(
        frame.code,
        instructions[frame.pc - 1].offset,
        stack,
        named(bound, frame.locals),
        named((name for name in frame.code.co_cellvars if name in alive and name in frame.cells), frame.cells),
        named(frame.code.co_freevars, frame.cells),
        reconstruction.globals_of(frame.scope),
        frame.current.line or frame.code.co_firstlineno,
    )


def _bound(generator: GeneratorVariable) -> Parts:
    """Arguments of a generator's function, while it has not started."""
    frame = generator.frame
    names = iter(frame.code.co_varnames)
    take = functools.partial(itertools.islice, names)
    positional, keyword_only = list(take(frame.code.co_argcount)), list(take(frame.code.co_kwonlyargcount))
    arguments = [frame.locals[name] for name in positional]
    keywords = {name: frame.locals[name] for name in keyword_only}
    if frame.code.co_flags & inspect.CO_VARARGS:
        arguments += _local(generator, next(names)).unpack(generator.interpreter)
    if frame.code.co_flags & inspect.CO_VARKEYWORDS:
        extra = _local(generator, next(names))
        assert isinstance(extra, DictVariable)
        keywords.update({str(key.constant()): value for key, value in extra.entries.values()})
    return arguments, keywords


def _call_until(generator: GeneratorVariable) -> Parts:
    return [_local(generator, "function"), _local(generator, "sentinel")], {}


_NOTHING: dict[Callable[..., Any], tuple[object, ...]] = {
    iter: (int, 0), reversed: ((),),
    map: (abs, ()), filter: (None, ()), enumerate: ((),), itertools.cycle: ((),),
    itertools.takewhile: (None, ()), itertools.filterfalse: (None, ()), itertools.starmap: (abs, ()),
    itertools.chain.from_iterable: ((),), itertools.islice: ((), 0), itertools.accumulate: ((),),
    itertools.dropwhile: (None, ()), itertools.pairwise: ((),), itertools.compress: ((), ()), itertools.groupby: ((),),
}  # fmt: skip
"""Arguments with which an iterator has no items."""


def finished_generator(name: str, qualname: str) -> Iterator[object]:
    """One that is at its end: it still has its names, ``send``, ``throw`` and ``close``."""
    nothing: tuple[object, ...] = ()
    iterator = (item for item in nothing)
    iterator.__name__, iterator.__qualname__ = name, qualname  # type: ignore[attr-defined]
    next(iterator, None)
    return iterator


def _local(generator: GeneratorVariable, name: str) -> VariableTracker:
    return realise(generator.interpreter, generator.frame.locals[name])


def _looped_over(generator: GeneratorVariable) -> VariableTracker:
    """The iterator of the ``for`` loop that it waits in."""
    # The stack of a generator that waits in a ``for`` loop holds the loop's iterator; the value that
    # it yielded is gone.
    return realise(generator.interpreter, generator.frame.stack[0])


def _zip(generator: GeneratorVariable) -> Parts:
    name = "iterators" if generator.started else "iterables"
    strict = _local(generator, "strict")
    is_strict = strict.is_constant() and bool(strict.constant())
    return _local(generator, name).unpack(generator.interpreter), {"strict": strict} if is_strict else {}


def _map(generator: GeneratorVariable) -> Parts:
    function = _local(generator, "function")
    if not generator.started:
        return [function, *_local(generator, "iterables").unpack(generator.interpreter)], {}
    # The polyfill of map loops over a zip of its iterables, which is a generator itself.
    rows: Any = _looped_over(generator)
    return [function, *_zip(rows)[0]], {}


def _filter(generator: GeneratorVariable) -> Parts:
    items = _looped_over(generator) if generator.started else _local(generator, "iterable")
    return [_local(generator, "function"), items], {}


def _count(generator: GeneratorVariable) -> Parts | None:
    start, step = (_local(generator, name) for name in ("number" if generator.started else "start", "step"))
    if not start.is_constant() or not step.is_constant():
        return None
    # ``number`` is the one that was yielded last: the next is one step on.
    following = start.constant() + step.constant() if generator.started else start.constant()  # type: ignore[operator]
    return [ConstantVariable(following), step], {}


def _repeat(generator: GeneratorVariable) -> Parts | None:
    item, times = _local(generator, "object"), _local(generator, "times")
    if not times.is_constant() or (generator.started and not _local(generator, "done").is_constant()):
        return None
    if times.constant() is None:
        return [item], {}
    # ``done`` does not count the item that was yielded last yet.
    done = _local(generator, "done").constant() + 1 if generator.started else 0  # type: ignore[operator]
    return [item, ConstantVariable(times.constant() - done)], {}  # type: ignore[operator]


def _enumerate(generator: GeneratorVariable) -> Parts | None:
    index = _local(generator, "index" if generator.started else "start")
    if not index.is_constant():
        return None if generator.started else ([_local(generator, "iterable"), index], {})
    following = ConstantVariable(index.constant() + generator.started)  # type: ignore[operator]
    return [_looped_over(generator) if generator.started else _local(generator, "iterable"), following], {}


def _while_true(generator: GeneratorVariable) -> Parts:
    items = _looped_over(generator) if generator.started else _local(generator, "iterable")
    return [_local(generator, "predicate"), items], {}


def _starmap(generator: GeneratorVariable) -> Parts:
    items = _looped_over(generator) if generator.started else _local(generator, "iterable")
    return [_local(generator, "function"), items], {}


def _settled(generator: GeneratorVariable, reconstruction: Reconstructor) -> Recipe:
    """One that reads all of its arguments when it is created."""
    if not reconstruction.shows_class(generator):
        return reconstruction.iterator([] if generator.finished else generator.unpack(generator.interpreter))
    cls = _SETTLED[generator.frame.code]
    if cls is itertools.product and generator.started:
        pools = _local(generator, "pools").unpack(generator.interpreter)
        rebuilt = _call(reconstruction, Constant(cls, cls.__name__), pools, {})
    else:
        rebuilt = _call(reconstruction, Constant(cls, cls.__name__), *_bound(generator))
    return moved(rebuilt, generator.given + generator.finished)


def _reversed(generator: GeneratorVariable) -> Parts | None:
    # ``reversed`` keeps its position in C, and calls ``__getitem__`` again for each item that is taken before.
    return None if generator.started else ([_local(generator, "sequence")], {})


def _cycle(generator: GeneratorVariable) -> Parts | None:
    # A cycle keeps the items that it saw in a list; itertools.cycle cannot be created with such a list.
    return None if generator.started else ([_local(generator, "iterable")], {})


_SETTLED: dict[CodeType, type] = {
    more_polyfills.product.__code__: itertools.product,
    more_polyfills.combinations.__code__: itertools.combinations,
    more_polyfills.combinations_with_replacement.__code__: itertools.combinations_with_replacement,
    more_polyfills.permutations.__code__: itertools.permutations,
}
"""Iterators whose values are fixed from the start, since they read all items of their inputs when they are created."""
_ROWS: dict[CodeType, tuple[Callable[..., Any], Callable[[GeneratorVariable], Parts | None]]] = {
    polyfills.zip_.__code__: (zip, _zip),
    polyfills.map_.__code__: (map, _map),
    polyfills.filter_.__code__: (filter, _filter),
    more_polyfills.count.__code__: (itertools.count, _count),
    more_polyfills.repeat.__code__: (itertools.repeat, _repeat),
    more_polyfills.cycle.__code__: (itertools.cycle, _cycle),
    polyfills.enumerate_.__code__: (enumerate, _enumerate),
    polyfills.call_until.__code__: (iter, _call_until),
    polyfills.reversed_by_index.__code__: (reversed, _reversed),
    more_polyfills.takewhile.__code__: (itertools.takewhile, _while_true),
    more_polyfills.filterfalse.__code__: (itertools.filterfalse, _while_true),
    more_polyfills.starmap.__code__: (itertools.starmap, _starmap),
}
_CONSTRUCTORS: dict[CodeType, Any] = {
    part.__code__: constructor
    for part, constructor in (
        (more_polyfills.chain, itertools.chain),
        (more_polyfills.chain_from_iterable, itertools.chain.from_iterable),
        (more_polyfills.islice, itertools.islice),
        (more_polyfills.accumulate, itertools.accumulate),
        (more_polyfills.zip_longest, itertools.zip_longest),
        (more_polyfills.dropwhile, itertools.dropwhile),
        (more_polyfills.pairwise, itertools.pairwise),
        (more_polyfills.compress, itertools.compress),
        (more_polyfills.groupby, itertools.groupby),
        (polyfills.by_index, iter),
    )
}
"""Constructors of the others; once they have returned an item, part of their state is in C and cannot be restored."""


def _inner(polyfill: Callable[..., Any]) -> CodeType:
    """The code of the generator function that a polyfill defines inside."""
    codes = (constant for constant in polyfill.__code__.co_consts if isinstance(constant, CodeType))
    return next(code for code in codes if code.co_flags & inspect.CO_GENERATOR)


class _SequenceProtocol:
    def __getitem__(self, index: int) -> object:
        raise IndexError


def _finished_by_index() -> Iterator[object]:
    iterator = iter(_SequenceProtocol())
    next(iterator, None)
    return iterator


def _finished_group() -> Iterator[object]:
    group = next(itertools.groupby((None,)))[1]
    next(group)
    return group


_FINISHED: dict[CodeType, Callable[[], Iterator[object]]] = {
    polyfills.by_index.__code__: _finished_by_index,
    _inner(more_polyfills.tee): lambda: itertools.tee(())[0],
    _inner(more_polyfills.groupby): _finished_group,
}
"""Iterators at their end whose class no constructor above gives."""
_CLASSES: dict[CodeType, type] = {
    **{code: cls for code, (cls, _) in _ROWS.items() if isinstance(cls, type)},
    **{code: cls for code, cls in _CONSTRUCTORS.items() if isinstance(cls, type)},
    **_SETTLED,
    more_polyfills.chain_from_iterable.__code__: itertools.chain,
    polyfills.call_until.__code__: type(iter(int, 0)),
    polyfills.by_index.__code__: type(iter(_SequenceProtocol())),
    _inner(more_polyfills.tee): type(itertools.tee(())[0]),
    _inner(more_polyfills.groupby): type(next(itertools.groupby((None,)))[1]),
}
