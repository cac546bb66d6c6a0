"""A resume tree as a program, which gives the function's results, and is what the tree shows."""

from __future__ import annotations

import re
import sys

import pytest
import torch

import nbcompile
from nbcompile.record import links
from nbcompile.views import chain, html
from tests.support.processes import command
from tests.views import sample_records as sample
from tests.views.test_html import Page

SAID = []


def inner(x, shift):
    y = x.sin()
    torch._dynamo.graph_break()
    return y + shift


def middle(x, shift):
    return inner(x * 2, shift).cos()


def nested(x, k):
    first = middle(x, k)
    SAID.append(("between", k))
    print("between", k)
    return first * k, x - 1


def branches(x, k):
    y = x * 2
    if y.sum() > 0:
        return y + k
    return y - k


def changes(xs, table):
    total = xs[0] * 2
    print(len(xs))
    for each in xs[1:]:
        total = total + each
    table["total"] = total
    torch._dynamo.graph_break()
    table["twice"] = total * 2
    return [total, table]


def in_two_branches(x, k):
    y = middle(x, k) if k > 1 else x
    torch._dynamo.graph_break()
    z = y.exp()
    print("again")
    return z.sum() + y


PROGRAMS = {
    "nested": (nested, lambda: (torch.randn(3), 2)),
    "branches": (branches, lambda: (torch.rand(3) + 0.1, 3)),
    "the other branch": (branches, lambda: (-torch.rand(3) - 0.1, 3)),
    "changes": (changes, lambda: ([torch.randn(2), torch.randn(2)], {})),
    "in two branches": (in_two_branches, lambda: (torch.randn(4), 2)),
}


def recorded(name, *, as_one):
    function, arguments = PROGRAMS[name]
    nbcompile.reset()
    with nbcompile.config.patch(nested_graph_breaks=as_one):
        return function, arguments, nbcompile.explain(function, backend="eager")(*arguments()).record


@pytest.mark.parametrize("as_one", [False, True], ids=["classic", "nested"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_gives_what_the_function_gives(name, as_one, capsys):
    """For random inputs, results, output and mutations are eager's; the program has every frame of the tree."""
    function, arguments, record = recorded(name, as_one=as_one)
    text = chain.program(record)
    compiled = {each.id for each in record.frames if each.residual}
    assert {each.replace("_", "/") for each in re.findall(r"^def frame_(\w+)\(", text, re.MULTILINE)} == compiled
    assert len(compiled) > 1
    space = {**globals()}
    exec(compile(text, "chain.py", "exec"), space)
    for _ in range(5):
        given = arguments()
        capsys.readouterr()
        SAID.clear()
        expected, out, told = function(*given), capsys.readouterr().out, SAID.copy()
        SAID.clear()
        found = space[function.__name__](*given)
        torch.testing.assert_close(found, expected)
        assert (capsys.readouterr().out, SAID) == (out, told)
    wrong = text.replace("return graph_out[0]", "return graph_out[0] + 1")
    if wrong != text:  # the comparison can fail
        exec(compile(wrong, "chain.py", "exec"), space)
        given = arguments()
        with pytest.raises(AssertionError):
            torch.testing.assert_close(space[function.__name__](*given), function(*given))


def test_what_was_not_compiled_says_so():
    """If a branch was not compiled, the program raises there, with the reason."""
    function, _, record = recorded("branches", as_one=False)
    space = {**globals()}
    exec(chain.program(record), space)
    with pytest.raises(NotImplementedError, match="was not compiled: nothing called it"):
        space[function.__name__](-torch.ones(3), 3)
    with pytest.raises(ValueError, match="no residual program of 9/9"):
        chain.program(record, "9/9")


def test_it_is_written_as_a_file(tmp_path):
    """With the function's globals, the program runs in another process."""
    from nbcompile.views.explanation import Explanation

    _, _, record = recorded("branches", as_one=False)
    path = Explanation(record).chain(tmp_path / "chain.py")
    program = path.read_text() + "\nprint(branches(torch.ones(3), 3).tolist())\n"
    path.write_text(program)
    done = command(sys.executable, path)
    assert (done.stdout, done.stderr) == ("[5.0, 5.0, 5.0]\n", "")


# --- the tree on the page ----------------------------------------------------------------------------


def shape(nodes):
    return [[node.frame.id, shape(node.children)] for node in nodes]


SHAPE = """
() => {
  const of = list => [...list.children].map(item => {
    const below = [...item.children].find(each => each.localName === "ul");
    return [item.querySelector("summary code").textContent, below ? of(below) : []];
  });
  return of(document.querySelector(".n-tree"));
}
"""


@pytest.mark.browser
@pytest.mark.parametrize("as_one", [False, True], ids=["classic", "nested"])
def test_the_tree_on_the_page_is_the_records(browser_page, as_one):
    """The nested lists are the frames; each unfolds by key to its Python, its live values, and the eager code."""
    _, _, record = recorded("nested", as_one=as_one)
    page = browser_page(html.render(record, "tree"))
    assert page.evaluate(SHAPE) == shape(links.resume_tree(record))
    for frame in record.frames:
        item = page.locator(".n-tree summary", has=page.locator(f"code:text-is('{frame.id}')")).first
        if not item.evaluate("each => each.parentElement.open"):
            item.press("Enter")
        inside = item.locator("xpath=..")
        assert frame.residual.strip().splitlines()[-1].strip() in inside.inner_text()
        for each in frame.resume_functions:
            assert all(value.name in inside.inner_text() for value in each.carried)
    between = [frame for frame in record.frames if frame.breaks]
    assert page.get_by_text("runs eagerly").count() == len(between) > 0


def test_without_scripts_the_python_is_there():
    """Without scripts the Python is in elements that unfold natively."""
    text = Page(html.render(sample.nested(), "tree", assets=False)).text
    for frame in sample.nested().frames:
        assert frame.residual.strip() in text
