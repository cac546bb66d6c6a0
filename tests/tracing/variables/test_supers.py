"""``super()``: the next class in the method order of the object's class."""

from __future__ import annotations

from tests.support.answers import check


class Base:
    rate = 1

    def method(self, a=1):
        return "base", a

    @classmethod
    def named(cls):
        return cls.__name__

    @property
    def value(self):
        return 5


class Left(Base):
    def method(self, a=1):
        return "left", *super().method(a)


class Right(Base):
    rate = 2

    def method(self, a=1):
        return "right", *super().method(a)


class Both(Left, Right):
    def method(self, a=1):
        return "both", *super().method(a)

    @classmethod
    def named(cls):
        return "Both", super().named()

    @property
    def value(self):
        return super().value + 1

    def of(self, name):
        return getattr(super(), name)

    def has(self, name):
        return hasattr(super(), name), getattr(super(), name, 4)

    def parts(self):
        return super().__thisclass__, super().__self__ is self, super().__self_class__

    def initialise(self, *arguments, **keywords):
        return super().__init__(*arguments, **keywords)


class Made:
    def __new__(cls, *arguments):
        return super().__new__(cls)


class Doubling(list):
    def append(self, item):
        super().append(2 * item)


class Answering(dict):
    def __missing__(self, key):
        return "missing", key

    def __getitem__(self, key):
        return "got", super().__getitem__(key)


class Plain(dict):
    def __getitem__(self, key):
        return "got", super().__getitem__(key)


NAMES = {"Base": Base, "Both": Both, "Right": Right, "both": Both(), "Made": Made}


def test_the_order_is_that_of_the_objects_class():
    """The next class need not be a base of the class that calls ``super()``."""
    check(
        "both.method()", "super(Both, both).method(3)", "super(Right, both).method(2)", "super(Base, both).method()",
        "Both.named()", "super(Both, Both).named()", "both.value", "both.of('rate')", "both.of('nothing')", "both.has('zz')",
        "both.has('rate')", **NAMES,
    )  # fmt: skip


def test_what_super_says_of_itself():
    """The attributes of ``super()`` itself are found if no class has them."""
    check("both.parts()", "both.of('__class__')", **NAMES)


def test_arguments_that_do_not_fit():
    """An object of another class, a value that is not a class, too many arguments and keywords raise errors."""
    check(
        "super(Both, 3)",
        "super(list, [1])[0]",
        "super(list, both)",
        "super(int, both)",
        "super(3, both)",
        "super(Both, Base)",
        "super(1, 2, 3)",
        "super(type=Both)",
        **NAMES,
    )


def test_the_last_class_takes_no_arguments():
    """``object.__init__`` rejects arguments, unless the class defines only ``__new__``."""
    check("both.initialise()", "both.initialise(1)", "both.initialise(a=1)", "type(Made(1, 2)) is Made", **NAMES)


def test_methods_of_built_in_bases():
    """A missing key calls the class's ``__missing__``, also through ``super().__getitem__``."""
    check(
        "items.append(3)\nreturn list(items)", "answers['z']", "answers['y']", "plain['y']", "answers.get('y')",
        "dict.__getitem__(answers, 'q')",
        items=lambda: Doubling([1]), answers=lambda: Answering(z=1), plain=lambda: Plain(z=1),
    )  # fmt: skip


class Obscure:
    """Calls of ``super()`` that raise errors in Python."""

    def without_names(*args):  # noqa: N805
        return super().__init__

    def deleted(x):  # noqa: N805
        del x
        super()

    def no_parameters():  # noqa: N805
        super()

    def inside(self):
        def inner():
            super()

        inner()

    def other(self, value):
        self = value
        return super().absent


def test_super_without_arguments_is_rejected_in_the_words_of_python():
    """The errors have Python's text, also for a deleted first parameter."""
    check(
        "Obscure().without_names()", "Obscure.deleted(Obscure())", "Obscure.no_parameters()", "Obscure().inside()",
        "Obscure().other(3)", "Obscure().other(Obscure())", Obscure=Obscure,
    )  # fmt: skip


class Numbered:
    def __new__(cls, *given):
        self = super().__new__(cls)
        self.number = 3
        return self


class Derived(Numbered):
    def __new__(cls):
        return super().__new__(cls, 1)


def test_new_is_called_explicitly_or_by_a_class():
    """``super().__new__(cls)`` creates the object whoever calls ``__new__``."""
    check("C.__new__(C).number", "C.__new__(D).number", "D.__new__(D).number", "type(C.__new__(D)) is D", "D().number",
          C=Numbered, D=Derived)  # fmt: skip
