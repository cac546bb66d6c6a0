"""The backend of a ``compile`` without a backend."""

import pytest

import nbcompile
from nbcompile.eval_frame import default_backend


@pytest.fixture(autouse=True)
def restored():
    """A fixture that restores the default."""
    yield
    nbcompile.set_default_backend(None)


def test_the_default_can_be_set_and_set_back():
    """None restores inductor; a name that does not exist changes nothing."""
    assert nbcompile.get_default_backend() == "inductor"
    nbcompile.set_default_backend("eager")
    with pytest.raises(nbcompile.exc.InvalidBackend):
        nbcompile.set_default_backend("inducter")
    assert nbcompile.get_default_backend() == "eager"
    nbcompile.set_default_backend(None)
    assert nbcompile.get_default_backend() == "inductor"


def test_a_wrapper_keeps_the_default_of_its_time():
    """The default is read at the call of ``compile``, not at the call of the function."""
    nbcompile.set_default_backend("aot_eager")
    compiled = nbcompile.compile(lambda x: x)
    nbcompile.set_default_backend(None)
    assert compiled._nbcompile_options.backend == "aot_eager"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((3,), TypeError),
        (("inducter",), nbcompile.exc.InvalidBackend),
        (("inductor", "fastest"), nbcompile.exc.InvalidMode),
        (("inductor", None, {"wat": 1}), nbcompile.exc.InvalidBackendOption),
    ],
)
def test_what_does_not_exist_is_an_error(arguments, error):
    """Backends, modes and options are checked when a function is wrapped."""
    with pytest.raises(error):
        default_backend.expect_backend(*arguments)
