"""Guards of both compilers, matched one to one."""

from __future__ import annotations

import pytest

from nbcompile.record.comparison import EQUAL, ONLY_OURS, ONLY_THEIRS
from nbcompile.record.model import Guard
from nbcompile.tools.compare import guards


def guard(kind: str, condition: str) -> Guard:
    return Guard("", kind, "", condition)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("__builtins__['print'] is 1", "G['__builtins_dict___7']['print'] is 1"),
        ("check_no_aliasing(L['x'], L['w'][0, 1])", "check_no_aliasing(L['w'][0, 1], L['x'])"),
        ("torch.nn.modules.linear.F is 1", "G['__import_torch_dot_nn_dot_modules_dot_linear'].F is 1"),
        ("type(G['c']).k == 2", "dict(type(G['c']).__dict__)['k'] == 2"),
        ("___check_obj_id(G['f'], ..), type=<class 'x'>", "___check_obj_id(G['f'], 140602010519248), type=<class 'x'>"),
        (
            "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, AutocastCPU), size=[3])",
            "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), size=[3])",
        ),
    ],
)
def test_spellings_of_one_condition(ours, theirs):
    """Names, ids and dispatch keys do not distinguish conditions."""
    (pair,) = guards.pair([guard("K", ours)], [guard("K", theirs)])
    assert pair.status == EQUAL


def test_guards_are_matched_one_to_one():
    """A condition that one side has twice matches one counterpart; a conjunction counts as its parts."""
    found = guards.pair(
        [guard("SHAPE_ENV", "(2 <= L['x'].size()[0]) and (L['n'] == 3)"), guard("TYPE_MATCH", "f(L['a'])")],
        [guard("LAMBDA_GUARD", "2 <= L['x'].size()[0] <= 99"), guard("EQUALS", "L['n'] == 3"), guard("ID", "f(L['b'])")],
    )  # fmt: skip
    assert [pair.status for pair in found] == ["different", ONLY_OURS, ONLY_THEIRS, EQUAL]
    assert found[0].theirs.endswith("<= 99")


def test_known_reasons():
    """Hooks of modules, which torch.compile does not check, are a known difference; a fake guard is not."""
    hooks, other = guards.pair([guard("DICT_LENGTH", "not L['m']._forward_hooks"), guard("K", "f(L['x'])")], [])
    assert "hooks" in hooks.known
    assert other.known == ""
