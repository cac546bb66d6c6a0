"""Functions that an exception leaves, in a separate module, because pytest rewrites assertions in tests."""

NOTED = []


def missing(x):
    y = x.sin()
    z = y + 1
    return z.nothing


def asserts(x):
    y = x.sin().cos().tan()
    assert y.dim() == 2, "it has two"
    return y


def asserts_with_text(x):
    y = x.sin().cos().tan()
    assert y.dim() == 2, f"it has {y.dim()}"
    return y


def asserts_in_finally(x):
    y = x.sin()
    z = y + 1
    try:
        z = z * 2
        assert z.dim() == 2
    finally:
        z = z * 3
    return z


def effect_before(x):
    y = x.sin()
    z = y + 1
    NOTED.append(len(NOTED))
    return z.nothing + len(NOTED)


def callee(z):
    assert z.dim() == 2
    return z


def asserts_in_callee(x):
    y = x.sin()
    z = y + 1
    return callee(z)


def raises(x):
    y = x.sin()
    z = y + 1
    raise ValueError(z.dim())


def raises_by_key(x):
    y = x.sin()
    z = y + 1
    return {}[z.dim()]


def caught(x):
    y = x.sin()
    try:
        y.nothing  # noqa: B018
    except AttributeError:
        y = y * 2
    try:
        assert y.dim() == 2
    except AssertionError:
        y = y * 3
    return y
