"""Handlers of signals wait while torch's C++ calls Python: nbcompile/torch_internals/interrupts.py."""

import signal
import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import nbcompile
from nbcompile.torch_internals import interrupts

HANDLED = (signal.SIGINT, signal.SIGUSR1)


class OwnHandlerError(Exception):
    """What the handler of a program raises."""


@pytest.fixture(autouse=True)
def handlers():
    """Handlers that raise; afterwards those of the test runner are back."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def handle(number, frame):
        raise OwnHandlerError(number)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, handle)
    yield handle
    for number, handler in before.items():
        signal.signal(number, handler)
    assert interrupts._block == [None]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask


def deliver(number):
    """Send a signal as the kernel does: to any thread of the process that takes it."""
    thread = threading.Thread(target=signal.raise_signal, args=(number,))
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "number, error", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGUSR1, OwnHandlerError)], ids=["SIGINT", "SIGUSR1"]
)
def test_a_signal_is_handled_at_the_end_of_the_block(handlers, number, error):
    """Also where another thread takes it; the program's handlers are back."""
    passed = []
    with pytest.raises(error), interrupts.deferred():
        deliver(number)
        passed.append("first")
        with interrupts.deferred():
            deliver(number)
        passed.append("second")
    assert passed == ["first", "second"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGUSR1) is handlers


def test_each_signal_that_was_noted_is_handled(handlers):
    """Also where the handler of another one raises; the second exception has the first one as its context."""
    with pytest.raises(OwnHandlerError) as caught, interrupts.deferred():
        deliver(signal.SIGINT)
        deliver(signal.SIGUSR1)
    assert isinstance(caught.value.__context__, KeyboardInterrupt)


def test_a_part_of_a_block_handles_signals():
    """What was noted before, and what arrives inside; after it signals wait again."""
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        deliver(signal.SIGINT)
        with interrupts.allowed():
            raise AssertionError("it was noted before")
    passed = []
    with pytest.raises(OwnHandlerError), interrupts.deferred():
        with pytest.raises(KeyboardInterrupt), interrupts.allowed():
            deliver(signal.SIGINT)
            raise AssertionError("it arrives inside")
        deliver(signal.SIGUSR1)
        passed.append("after it")
    assert passed == ["after it"]


def test_a_block_that_does_not_end_can_be_interrupted(monkeypatch):
    """By the second signal, some seconds after the first."""
    monkeypatch.setattr(interrupts, "PATIENCE", 0.0)
    passed = []
    with pytest.raises(KeyboardInterrupt), interrupts.deferred():
        deliver(signal.SIGINT)
        passed.append("first")
        deliver(signal.SIGINT)
        passed.append("second")
    assert passed == ["first"]


def test_a_handler_that_is_set_inside_stays(handlers):
    """A program (a backend, say) may set its own while we compile."""
    with interrupts.deferred():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


def test_other_threads_have_no_handlers():
    """A block in a thread other than the main one changes nothing."""
    seen = []

    def work():
        with interrupts.deferred(), interrupts.allowed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("number", HANDLED, ids=["SIGINT", "SIGUSR1"])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("at", [1, 2, 4])
def test_a_signal_while_an_operator_is_traced(monkeypatch, number, train, at):
    """Python that C++ calls (in a constructor of autograd's, say) is not interrupted; the call raises afterwards."""
    nbcompile.reset()
    monkeypatch.setattr(nbcompile.config, "warm_start", False)
    x = torch.linspace(-1, 1, 6).requires_grad_(train)
    calls = []
    dispatch = FakeTensorMode.dispatch

    def eager(x):
        return (x * 2).sin() + 1

    def interrupted(*arguments, **keywords):
        calls.append(1)
        if len(calls) == at:
            deliver(number)
        return dispatch(*arguments, **keywords)

    f = nbcompile.compile(eager, backend="aot_eager")
    with monkeypatch.context() as patched, pytest.raises((KeyboardInterrupt, OwnHandlerError)):
        patched.setattr(FakeTensorMode, "dispatch", interrupted)
        f(x)
    assert len(calls) >= at
    assert not torch._C._len_torch_dispatch_stack()
    torch.testing.assert_close(f(x), eager(x))


def test_what_a_handler_raises_is_no_error_of_the_compiler(monkeypatch):
    """A time limit (a handler that raises an Exception) ends the call as in eager mode, wherever it is met."""
    nbcompile.reset()
    monkeypatch.setattr(nbcompile.config, "warm_start", False)
    x = torch.ones(3)

    def backend(module, inputs):
        signal.raise_signal(signal.SIGUSR1)
        return module.forward

    f = nbcompile.compile(lambda x: x + 1, backend=backend)
    with pytest.raises(OwnHandlerError):
        f(x)


def test_an_error_of_ours_is_not_taken_for_one_of_a_handler():
    """The default handlers are members of an enumeration: a frame of ``enum`` in a traceback is no frame of theirs."""
    try:
        signal.Signals(-5)
    except ValueError as error:
        interrupts.pass_on(error)


def test_a_block_that_could_not_be_left_is_released():
    """Where Python's stack was too deep to leave it; without one nothing happens."""
    left = interrupts.deferred()
    left.__enter__()
    interrupts.release()
    assert interrupts._block == [None]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupts.release()
