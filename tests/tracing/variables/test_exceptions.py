"""Exceptions as objects: their arguments, their links, and their errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Self

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


class Own(Exception):
    pass


def test_texts_and_arguments():
    """The texts for no, one and several arguments; a KeyError has the ``repr`` of its key."""
    check(
        "Own('a', 'b').args", "str(Own('a'))", "str(Own())", "str(Own('a', 'b'))", "repr(Own('a'))", "repr(Own())",
        "repr(Own('a', 1))", "str(KeyError('a'))", "repr(KeyError('a'))", "KeyError('a') == KeyError('a')",
        "e = ValueError('a')\ne.args = (1, 2)\nreturn e.args, str(e)", "e = ValueError('a')\ne.args = 5", Own=Own,
    )  # fmt: skip


def test_what_built_in_classes_keep():
    """Attributes that C code derives from the arguments."""
    check(
        "OSError(2, 'no').errno", "OSError(2, 'no', 'f').filename", "str(OSError(2, 'no', 'f'))", "StopIteration(5).value",
        "UnicodeDecodeError('u', b'a', 0, 1, 'r').reason", "ImportError('x', name='n').name", "SystemExit(3).code",
        "AttributeError('x', name='n', obj=1).name", "isinstance(ValueError(), Exception)", "issubclass(KeyError, LookupError)",
    )  # fmt: skip


def test_links_to_other_exceptions():
    """A cause hides the context; a link is an exception or None."""
    check(
        "e = ValueError('a')\ne.__cause__ = KeyError()\nreturn e.__suppress_context__, type(e.__cause__)",
        "e = ValueError('a')\ne.__cause__ = 5", "e = ValueError('a')\ne.__context__ = 5", "ValueError('a').with_traceback(3)",
        "str(ValueError('a').with_traceback(None))",
        """
        try:
            raise ValueError('a') from KeyError('k')
        except ValueError as error:
            return repr(error.__cause__), error.__suppress_context__, error.__context__
        """,
        """
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise ValueError(2)
        except ValueError as error:
            return repr(error.__context__), error.__suppress_context__
        """,
        "raise ValueError('a') from None", "raise ValueError('a') from 5",
    )  # fmt: skip


class Ended(StopIteration):
    """A subclass of StopIteration that defines nothing."""


class Rejected(ValueError, OSError):
    """A class with two bases in C, of which the second determines the layout."""


class Several(ExceptionGroup):  # type: ignore[type-arg]
    """A user's exception group."""


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    "make",
    [
        lambda: ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b")])]),
        lambda: Several("g", [TypeError("a")]),
        lambda: Ended(4),
        lambda: Rejected(1, "x"),
    ],
)
def test_classes_whose_layout_is_their_own(make: Callable[[], BaseException]) -> None:
    """Groups, and other exceptions with their own layout in C, are returned without a graph break."""
    names = ("args", "errno", "strerror", "code", "value", "message")

    def f(x: torch.Tensor) -> Any:
        return x + 1, make()

    def described(error: Any) -> Any:
        below = [described(one) for one in getattr(error, "exceptions", ())]
        return type(error), str(error), [repr(getattr(error, name, None)) for name in names], below

    graphs = Graphs()
    _, error = nbcompile.compile(f, backend=graphs, fullgraph=True)(torch.ones(2))
    assert described(error) == described(make())
    assert len(graphs) == 1


class Coded(Exception):
    """An exception class that defines nothing."""


class Counted(ValueError):
    """An exception class that sets an attribute in ``__new__``."""

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        made = super().__new__(cls, *arguments)
        made.count = len(arguments) + len(named)  # type: ignore[attr-defined]
        return made

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, *named)


class NeverOne(Exception):
    """A class whose ``__new__`` returns an int."""

    def __new__(cls) -> int:  # type: ignore[misc]
        return 3


def chain(error: BaseException | None) -> list[Any]:
    """An exception and the chain of its contexts."""
    found: list[Any] = []
    while error is not None and len(found) < 6:
        found.append((type(error).__name__, error.args, type(error.__cause__).__name__, error.__suppress_context__))
        error = error.__context__
    return found


def fail(error: BaseException) -> None:
    """Raise an exception in a separate frame."""
    raise error


def again() -> None:
    """Raise the exception that a caller handles."""
    raise  # noqa: PLE0704


def test_what_a_caller_handles_is_the_context():
    """Each ``raise`` sets the context to the exception that is currently handled, also by a caller."""
    check(
        "try:\n  try: 1 / 0\n  except ZeroDivisionError: again()\nexcept ZeroDivisionError as e: return chain(e)",
        "try:\n  try: 1 / 0\n  except ZeroDivisionError: fail(KeyError(1))\nexcept KeyError as e: return chain(e)",
        "e = ValueError(1)\ne.__context__ = KeyError(2)\ntry:\n  try: 1 / 0\n  except ZeroDivisionError: raise e\n"
        "except ValueError as q: return chain(q)",
        """
        a, b = ValueError("a"), ValueError("b")
        try:
            try:
                raise a
            except ValueError:
                try:
                    raise b
                except ValueError:
                    raise a
        except ValueError as last:
            return chain(last)
        """,
        "try:\n  try: raise ValueError(1)\n  finally: raise KeyError(2)\nexcept KeyError as e: return chain(e)",
        "try:\n  try: {}['a']\n  except KeyError: int('x')\nexcept ValueError as e: return chain(e)",
        "try: raise ValueError(1)\nexcept ValueError:\n  try: raise KeyError(2)\n  except KeyError: pass\n  raise",
        "again()", chain=chain, fail=fail, again=again,
    )  # fmt: skip


def test_what_waits_in_a_generator_is_the_context():
    """A suspended generator still handles its exception, which is the context of one that is thrown into it."""
    check(
        *(
            f"""
            def below():
                yield
            def g():
                try:
                    raise KeyError('a')
                except KeyError:
                    {line}
            it = g()
            it.send(None)
            try:
                it.throw(ValueError)
            except ValueError as e:
                return chain(e)
            """
            for line in ("yield", "yield from below()", "yield from [1, 2]")
        ),
        """
        def g():
            try:
                yield 1
            except ValueError:
                yield sys.exc_info()[0]
            yield sys.exc_info()[0]
        try:
            1 / 0
        except ZeroDivisionError:
            it = g()
            return [next(it), it.throw(ValueError), next(it)]
        """,
        "def g():\n  raise StopIteration(3)\n  yield\ntry: next(g())\nexcept RuntimeError as e: return chain(e)",
        chain=chain, sys=sys,
    )  # fmt: skip


def test_what_is_no_exception_cannot_be_raised():
    """Such a value cannot be a cause either; a class may fail to create an exception."""
    check(
        "raise 'foo'", "raise 1", "raise object", "raise (ValueError, 1)", "raise ValueError from 'a'",
        "raise ValueError from int", "raise NeverOne", "raise ValueError(1) from KeyError",
        NeverOne=NeverOne,
    )  # fmt: skip


@pytest.mark.usefixtures("nothing_compiled")
def test_a_constructor_in_python_makes_it():
    """``__new__`` is traced, and its attributes belong to the exception."""

    def f(x: torch.Tensor, kind: Any) -> Any:
        try:
            raise kind("a", 2)
        except ValueError as error:
            return x + 1, error.args, getattr(error, "count", None), str(error)

    for kind in (Counted, ValueError):
        assert nbcompile.compile(f, backend="eager")(torch.ones(1), kind) == f(torch.ones(1), kind)


def test_links_reject_what_is_no_link():
    """A link accepts only exceptions and None, and cannot be deleted."""
    names = ("args", "__traceback__", "__cause__", "__context__", "__suppress_context__", "absent")
    check(
        *(f"e = Exception()\ndel e.{name}" for name in names),
        *(f"e = Exception()\ne.{name} = {value}\nreturn e.{name}" for name in names[:-1] for value in ("1", "[1]", "None")),
        "e = Exception()\ne.__suppress_context__ = True\nreturn e.__suppress_context__",
    )  # fmt: skip


def test_initialisers_in_c_reject_arguments():
    """Unknown keywords, wrong counts and wrong types raise errors; OSError and ImportError store some arguments."""
    check(
        "Coded(1, a=2)", "ValueError(a=1)", "ImportError('a', b=1)", "NameError('a', b=1)", "UnicodeDecodeError(1)",
        "SyntaxError('a', (1, 2))", "AttributeError('x', name='n', other=1)", "KeyError(key=1)",
        *(f"e = OSError({given})\nreturn type(e), e.args, e.errno, e.filename, e.filename2, str(e), repr(e)" for given in (
            "2, 'x', 'f'", "2, 'x', 'f', None, 'g'", "2, 'x', None", "2", "2, 'x'", "", "1, 2, 3, 4, 5, 6")),
        "e = ImportError('a', name='n', path='p')\ne.__init__('b')\nreturn e.name, e.path, e.args, e.msg",
        "ImportError('a', name='n').path", "NameError('a', name='n').name", "NameError('a').name", Coded=Coded,
    )  # fmt: skip


def test_a_name_that_is_nowhere_is_an_exception():
    """The NameError can be caught and names the variable; the name may be defined later."""

    def g() -> Any:
        if sys is None:
            unset = 1
        try:
            return (lambda: unset)()
        except NameError as error:
            return error.name, str(error)

    def names(x: torch.Tensor) -> Any:
        try:
            undefined_name  # type: ignore[name-defined]  # noqa: B018, F821
        except NameError as error:
            return x + 1, error.name, str(error), error.args, chain(error), g()

    assert nbcompile.compile(names, backend="eager", fullgraph=True)(torch.ones(1)) == names(torch.ones(1))

    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + later_global  # type: ignore[name-defined]  # noqa: F821
        except NameError:
            return x * 3

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 3
    globals()["later_global"] = 10
    try:
        assert compiled(torch.ones(1)).item() == 11
    finally:
        del globals()["later_global"]
    assert compiled(torch.ones(1)).item() == 3


def test_a_global_that_the_frame_deletes_is_nowhere():
    """The NameError is traced; the guard expects the global to exist at the start of the frame."""

    def f(x: torch.Tensor) -> Any:
        global deleted_here
        y = x + deleted_here
        del deleted_here
        try:
            return y, deleted_here
        except NameError as error:
            return y, error.name

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    for number in (3, 4):
        globals()["deleted_here"] = number
        assert compiled(torch.ones(1)) == (torch.ones(1) + number, "deleted_here")
        assert "deleted_here" not in globals()


def test_a_name_that_a_module_with_its_own_builtins_lacks():
    """The graph breaks, because the ``builtins`` module may have the name, and Python decides."""
    scope = {"__name__": "of_nobody", "__builtins__": {"NameError": NameError}}
    exec("def f(x):\n  try:\n    return x + len\n  except NameError:\n    return x + 5\n", scope)
    assert nbcompile.compile(scope["f"], backend="eager")(torch.ones(1)).item() == 6  # type: ignore[operator]


class Numbered(Exception):
    def __init__(self, code: int) -> None:
        super().__init__("coded", code)
        self.code = code

    def twice(self) -> int:
        return self.code * 2

    def __str__(self) -> str:
        return f"Numbered {self.code}"


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda: ValueError("v", 3), lambda e: (e.args[1], str(e), repr(e), f"{e}", e.__cause__, e.__context__)),
        (lambda: KeyError("k"), lambda e: (len(e.args), str(e), repr(e), isinstance(e, LookupError), type(e).__name__)),
        (lambda: OSError(2, "no", "f"), lambda e: (e.errno, e.strerror, e.filename, e.args)),
        (lambda: StopIteration(4), lambda e: (e.value, e.args)),
        (lambda: SystemExit(5), lambda e: (e.code, bool(e))),
        (lambda: ExceptionGroup("m", [ValueError(1), KeyError(2)]), lambda e: (len(e.exceptions), e.message)),
        (lambda: ExceptionGroup("m", [ValueError(1)]), lambda e: (e.exceptions[0].args[0], e.args[0])),
        (lambda: Numbered(3), lambda e: (e.code, e.twice(), str(e), e.args, hasattr(e, "new"), getattr(e, "new", 4))),
        (lambda: Numbered(3), lambda e: ({e: 1}[e], e == e, e == ValueError(3), e.__suppress_context__)),  # noqa: PLR0124
        (lambda: ImportError("t", name="n"), lambda e: (e.name, e.path, e.msg)),
    ],
)
@pytest.mark.usefixtures("nothing_compiled")
def test_what_a_given_exception_says(make: Callable[[], BaseException], read: Callable[[Any], tuple[Any, ...]]) -> None:
    """An exception as an argument is an object whose C attributes can be read without a graph break."""

    def f(x: torch.Tensor, error: BaseException) -> tuple[torch.Tensor, Any, BaseException]:
        return x + 1, read(error), error

    error, graphs = make(), Graphs()
    result = nbcompile.compile(f, backend=graphs, fullgraph=True)(torch.ones(2), error)
    assert result[1] == read(error)
    assert result[2] is error
    assert graphs.operators == ["add"]


@pytest.mark.parametrize("change", ["args", "code", "class"])
@pytest.mark.usefixtures("nothing_compiled")
def test_what_was_read_of_a_given_exception_is_guarded(change: str) -> None:
    """Other arguments, another attribute or another class give another result in the next call."""

    def f(x: torch.Tensor, error: Any) -> torch.Tensor:
        return x + error.args[1] + error.code

    compiled, error = nbcompile.compile(f, backend="eager"), Numbered(3)
    for _ in range(3):
        assert compiled(torch.ones(1), error).item() == 7
    match change:
        case "args":
            error.args = ("coded", 10)
        case "code":
            error.code = 10
        case _:
            error = type("Other", (Numbered,), {"code": property(lambda _: 10, lambda *_: None)})(3)
    assert compiled(torch.ones(1), error).item() == f(torch.ones(1), error).item() == 14


@pytest.mark.usefixtures("nothing_compiled")
def test_an_exception_caught_before_a_break() -> None:
    """Reads after the graph break are compiled, and an attribute can be set."""

    def f(x: torch.Tensor) -> Any:
        try:
            raise ValueError("v", 3)
        except ValueError as error:
            caught: Any = error
        print(end="")
        caught.note = caught.args[0]
        return x * caught.args[1] + 6, str(caught), caught.note, caught

    graphs = Graphs()
    result, text, note, error = nbcompile.compile(f, backend=graphs)(torch.ones(1))
    assert (result.item(), text, note, error.note) == (9, "('v', 3)", "v", "v")
    assert graphs.operators == ["mul add"]


@pytest.mark.usefixtures("nothing_compiled")
def test_a_given_exception_that_is_raised() -> None:
    """The caught object is the argument itself; its context is read at run time."""

    def f(x: torch.Tensor, error: ValueError) -> Any:
        try:
            raise KeyError(2) from error
        except KeyError as key:
            first = key.__cause__ is error
        try:
            try:
                raise KeyError
            except KeyError:
                raise error
        except ValueError as caught:
            return x + 1, first, caught is error, type(caught.__context__)

    compiled = nbcompile.compile(f, backend="eager")
    assert compiled(torch.ones(1), ValueError(1))[1:] == (True, True, KeyError)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: OSError(2, "no"), "characters_written"),
        (lambda: BlockingIOError(2, "no", 5), "characters_written"),
        (lambda: UnicodeDecodeError.__new__(UnicodeDecodeError), "reason"),
        (lambda: UnicodeDecodeError("u", b"a", 0, 1, "r"), "reason"),
        (lambda: SyntaxError("s"), "text"),
    ],
)
@pytest.mark.usefixtures("nothing_compiled")
def test_a_field_that_was_never_set(make: Callable[[], BaseException], name: str) -> None:
    """Reading a field without a value raises eager mode's error, and no internal error is reported."""

    def f(x: torch.Tensor, error: BaseException) -> Any:
        y = x + 1
        try:
            return y, hasattr(error, name), getattr(error, name)
        except (AttributeError, TypeError) as rejected:
            return y, type(rejected), str(rejected)

    with warnings.catch_warnings():
        warnings.simplefilter("error", nbcompile.errors.InternalErrorWarning)
        found = nbcompile.compile(f, backend="eager")(torch.ones(1), make())
    assert (found[0].item(), *found[1:]) == (2, *f(torch.ones(1), make())[1:])
