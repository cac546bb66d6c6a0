"""Torch's loggers: which logs are on, and what they say of a frame."""

from __future__ import annotations

import logging
import os

import pytest
import torch

from nbcompile.torch_internals import logs


@pytest.fixture
def log_state():
    """The logs are those of the environment afterwards."""
    yield
    torch._logging._internal.log_state.clear()
    torch._logging._internal._init_logs()


def test_an_unknown_log_is_rejected():
    """Its name is in the message, and the variable of the environment is as before."""
    variable = torch._logging._internal.LOG_ENV_VAR
    before = os.environ.get(variable)
    with pytest.raises(ValueError, match="torch has no log no_such_log"):
        logs.choose_logs("graph_code,no_such_log")
    assert os.environ.get(variable) == before


def test_logs_that_are_chosen_are_on(log_state):
    """By torch's names: an artifact, and a part of torch with its level; "" switches all off."""
    logs.choose_logs("graph_code,+dynamo")
    assert "graph_code" in logs.enabled_artifacts()
    assert logs.enabled_components()["dynamo"] == logging.DEBUG
    logs.choose_logs("")
    assert logs.enabled_artifacts() == ()


def test_a_log_is_about_the_frame_that_is_compiled():
    """Inside, torch's compile id is the frame's; outside there is none."""
    with logs.compiling("3/1"):
        assert str(torch._guards.CompileContext.current_compile_id()) == "3/1"
    assert torch._guards.CompileContext.current_compile_id() is None


def test_a_text_has_one_number():
    """The same text is replaced by the same number, another one by another."""
    first, second = logs.intern_string("a file of nobody"), logs.intern_string("another file of nobody")
    assert logs.intern_string("a file of nobody") == first != second
