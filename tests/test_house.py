"""Rules of the code base that neither ruff nor import-linter can check."""

from __future__ import annotations

import ast
import collections
import functools
import importlib.util
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import grimp
import networkx as nx
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "nbcompile"
TORCH = Path(importlib.util.find_spec("torch").origin).parent

MODULE_LINES, FUNCTION_LINES = 400, 60
MODULE_LIMIT = 800
"""The limit for the modules of LONG_MODULES."""
LONG_MODULES = {
    # One table, an entry for each kind: a cut would separate entries of one list.
    "tracing/breaks.py", "record/model.py",
    # One class, whose methods share state.
    "tracing/variables/objects.py",
}  # fmt: skip
"""Modules above MODULE_LINES, by the reason."""
LONG_FUNCTIONS = {
    "rewriting/sources.py fetch": "one match over all sources",
}
"""Functions above FUNCTION_LINES, with the reason."""

# What users write in their own programs and nbcompile recognises by name. Nothing else of these two
# packages may be mentioned outside peer/, in code or in prose.
ANNOTATIONS = {
    "allow_in_graph", "assume_constant_result", "compiled_autograd", "comptime", "config", "decorators", "disable", "disallow_in_graph",
    "dont_skip_tracing", "error_on_graph_break", "forbid_in_graph", "graph_break", "is_compiling",
    "is_dynamo_compiling", "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked",
    "eval_frame", "external_utils", "OptimizedModule", "maybe_mark_dynamic", "nonstrict_trace", "optimize", "patch_dynamo_config", "reset",
    "run",
    "set_stance", "skip_frame", "step_unsupported", "substitute_in_graph", "trace_rules", "utils",
}  # fmt: skip
RECOMPILE_WARNING = "torch._dynamo hit config."
"""The warning is torch's own text, word for word."""


@functools.cache
def modules() -> tuple[Path, ...]:
    """Each module of the package that is not empty."""
    return tuple(path for path in sorted(PACKAGE.rglob("*.py")) if path.read_text().strip())


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def for_each(paths: Callable[[], Iterable[Path]]) -> Callable[[Callable[[Path], None]], Callable[[], None]]:
    """Make one test of a rule about files: its message lists each file that breaks the rule, with the reason.

    A test for each file and rule would be a quarter of the whole suite by number, and most of their time pytest's own.
    """

    def decorate(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            broken = {}
            for path in paths():
                try:
                    rule(path)
                except AssertionError as error:
                    broken[named(path)] = str(error)
            assert not broken, "\n".join(f"{name}: {why}" for name, why in broken.items())

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return decorate


each_module = for_each(modules)


def docstring(path: Path) -> str:
    return ast.get_docstring(tree_of(path)) or ""


def unwrapped(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@each_module
def test_a_module_teaches_one_idea(path: Path):
    """A module has a docstring that says which file of torch does the same, or that none does."""
    text = docstring(path)
    assert text, "no module docstring"
    assert "In torch:" in text, "the module docstring has no line `In torch: <file>` (or `In torch: nothing`)"


@each_module
def test_named_files_exist(path: Path):
    """Files of torch and of nbcompile that a module docstring names exist."""
    text = unwrapped(docstring(path))
    missing = [name for name in re.findall(r"\btorch/[\w/]+\.(?:py|cpp|c|h)\b", text) if not exists_in_torch(name)]
    missing += [
        name for name in re.findall(r"\bnbcompile/[\w/]+\.(?:py|cpp|c|h)\b", text) if not (ROOT / name).exists()
    ]
    _, _, following = text.partition("Read next:")
    missing += [name for name in re.findall(r"[\w/]+\.py\b", following) if not exists_beside(path, name)]
    assert not missing


def exists_beside(path: Path, name: str) -> bool:
    """True for the path of a file from the root, or from the folder of the module that names it."""
    return (ROOT / name).exists() or (path.parent / name).exists()


def exists_in_torch(name: str) -> bool:
    # C and C++ sources are not part of the wheel; headers are, below include/.
    if name.endswith((".cpp", ".c")):
        return True
    return (TORCH.parent / name).exists() or (TORCH / "include" / name).exists()


@each_module
def test_imports_stand_at_the_top(path: Path):
    """No import is inside a function: the head of a module shows what it needs."""
    tree = tree_of(path)
    inner = [
        f"{named(path)}:{node.lineno}"
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not inner


@each_module
def test_imports_are_absolute(path: Path):
    """The path of an import is part of the explanation."""
    relative = [node.lineno for node in ast.walk(tree_of(path))
                if isinstance(node, ast.ImportFrom) and node.level]  # fmt: skip
    assert not relative


def mentions(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each mention of torch's own compiler that is no annotation of a user program."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in re.finditer(r"torch\._(dynamo|inductor)\b(?:\.(\w+))?", line):
            if line[found.start() :].startswith(RECOMPILE_WARNING):
                continue
            if found[1] == "inductor" or (found[2] or "") not in ANNOTATIONS:
                yield number, found[0]


@each_module
def test_the_compiler_is_our_own(path: Path):
    """Outside peer/, torch's own compiler is mentioned only by the annotations of user programs."""
    if path.is_relative_to(PACKAGE / "peer"):
        return
    if path in (PACKAGE / "fast" / "guard_tree_stubs.py", PACKAGE / "fast" / "dynamo_stub.py"):
        return  # they name what they keep from being imported
    assert list(mentions(path.read_text())) == []


def test_a_rule_lists_every_file_that_breaks_it():
    """One test of a rule names each file, with its reason, and no file that keeps the rule."""

    def rule(path: Path) -> None:
        assert path.stem == "api", f"it is called {path.stem}"

    for_each(lambda: [PACKAGE / "api.py"])(rule)()
    with pytest.raises(AssertionError) as found:
        for_each(lambda: [PACKAGE / f"{name}.py" for name in ("config", "api", "errors")])(rule)()
    said = str(found.value)
    assert "nbcompile/config.py: it is called config" in said
    assert "nbcompile/errors.py: it is called errors" in said
    assert "nbcompile/api.py" not in said


def test_the_rule_about_mentions_can_fail():
    """An import of torch's compiler is found; an annotation is not."""
    assert list(mentions("import torch._dynamo")) == [(1, "torch._dynamo")]
    assert list(mentions("from torch._inductor import ir")) == [(1, "torch._inductor")]
    assert list(mentions("a\nx = torch._dynamo.symbolic_convert")) == [(2, "torch._dynamo.symbolic_convert")]
    assert list(mentions("torch._dynamo.graph_break()\nfrom torch._C._dynamo import guards")) == []


def lengths() -> Iterator[tuple[str, int, int]]:
    """Name, number of lines and limit of each module and function."""
    for path in modules():
        name, text = str(path.relative_to(PACKAGE)), path.read_text()
        yield name, len(text.splitlines()), MODULE_LIMIT if name in LONG_MODULES else MODULE_LINES
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield f"{name} {node.name}", node.end_lineno - node.lineno + 1, FUNCTION_LINES


def test_sizes():
    """No module or function exceeds the limit of its size, except for those that are listed with a reason."""
    sizes = list(lengths())
    assert [(name, size) for name, size, limit in sizes if size > limit and name not in LONG_FUNCTIONS] == []


def test_exceptions_to_sizes_are_needed():
    """A module or function that does not exceed the limit is not in the list of exceptions."""
    long_modules = {name for name, size, _ in lengths() if size > MODULE_LINES}
    long_functions = {name for name, size, _ in lengths() if size > FUNCTION_LINES}
    assert LONG_MODULES - long_modules == set()
    assert LONG_FUNCTIONS.keys() - long_functions == set()


def test_class_names_are_unique_in_a_package():
    """A class name is defined once in a package."""
    found = collections.Counter(
        (path.relative_to(PACKAGE).parts[0], node.name)
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


SCHEMA = PACKAGE / "record"
"""The record's field and class names are a schema: files that were written before have them."""
PRIVATE = {
    "again", "alone", "beside", "circle", "circles", "dear", "ledger", "lies", "made", "near", "far", "place", "places", "room",
    "told", "twin",
}  # fmt: skip
PRIVATE_PARTS = {
    "asked", "asking", "asks", "goes", "made", "meets", "met", "nobody", "place", "placed", "places", "said", "tell", "teller", "tells",
    "told", "turned", "twin", "twins", "wanted",
}  # fmt: skip
"""These may not be a part of a name either; ``in_place`` is torch's word."""


@for_each(lambda: (path for path in sorted(PACKAGE.rglob("*.py")) if SCHEMA not in path.parents))
def test_names_are_those_of_the_field(path: Path):
    """No variable, attribute, parameter, function or class has a private word for a name or for a part of one."""
    tree = tree_of(path)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert sorted(names & PRIVATE) == []
    assert [name for name in sorted(names) if PRIVATE_PARTS & set(name.replace("in_place", "").split("_"))] == []
    assert path.stem not in PRIVATE


PRIVATE_PROSE = {
    "anybody", "beside", "born", "circle", "circles", "dear", "dies", "ledger", "lies", "made", "meet", "meets",
    "met", "nobody", "place", "placed", "places", "said", "somebody", "spoken", "stands", "told", "turned", "twin", "twins", "wanted",
}  # fmt: skip
"""Words for which the field has one: created, position, cycle, expensive, is freed, is in, represents, counterpart ..."""
PRIVATE_IN_NATIVE_CODE = {"ask", "asked", "asking", "asks", "tell", "tells", "whoever"}
"""Words of people: code calls, queries, returns and reports."""
PRIVATE_IN_READ_ROOMS = {
    "ask", "asked", "asking", "asks", "forget", "forgets", "judge", "judged", "knows", "promise", "promises",
    "remember", "remembers", "sees", "tell", "tells", "want", "wants",
}  # fmt: skip
"""More verbs of people, in the prose of the rooms that have none of them: a longer list of rooms is better."""
READ_ROOMS = {"gpu", "tools"}
PRIVATE_MESSAGES = {"made", "met", "place", "placed", "places", "told", "twin", "twins", "wanted"}
"""Those of them that no text for a user contains either."""
NOT_PRIVATE = re.compile(r"(?<![a-z])in[-\s_]+place\b(?! of)|\blast place\b|\bplace\(")
"""In-place operators, in torch's word; the unit in the last place (ulp), in that of the books; a class of the record."""
PROGRAMS = {PACKAGE / "tools" / "fuzz" / name for name in ("guards.py", "python.py")}
"""Modules that contain programs of users as texts: those have names of their own."""


def private_words(text: str, banned: set[str]) -> list[str]:
    """The banned words in a text, in alphabetical order."""
    return sorted(banned & set(re.findall(r"[a-z]+", NOT_PRIVATE.sub("", text.lower()))))


@each_module
def test_prose_uses_words_of_the_field(path: Path):
    """No docstring, no comment and no text for a user contains a word for which the field has another one."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    prose = [token.string for token in tokens if token.type == tokenize.COMMENT]
    prose += [text for text in map(_docstring, ast.walk(tree_of(path))) if text]
    of_room = PRIVATE_IN_READ_ROOMS if path.relative_to(PACKAGE).parts[0] in READ_ROOMS else set()
    assert private_words(" ".join(prose), PRIVATE_PROSE | of_room) == []
    texts = [node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Constant)]
    texts = [text for text in texts if isinstance(text, str) and " " in text]
    assert path in PROGRAMS or private_words(" ".join(texts), PRIVATE_MESSAGES) == []


@for_each(lambda: (path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".c", ".h", ".cpp")))
def test_native_code_uses_words_of_the_field(path: Path):
    """No name, comment or message in C and C++ is such a word either."""
    text = re.sub(r"\n\s*\*?\s*", " ", path.read_text())
    assert private_words(text, PRIVATE_PROSE | PRIVATE_IN_NATIVE_CODE) == []


READ_PAGES = ("gpu.md", "gpu_corpus.md", "gpu_templates.md")


@for_each(lambda: (ROOT / "docs" / "design" / name for name in READ_PAGES))
def test_read_pages_use_words_of_the_field(path: Path):
    """The pages about the design that were read sentence by sentence use the words of the packages they describe."""
    assert private_words(path.read_text(encoding="utf-8"), PRIVATE_PROSE | PRIVATE_IN_READ_ROOMS) == []


RETIRED = {"refus": "reject; a guard fails; a construct is unsupported"}
"""Beginnings of words that are nowhere in the source, the tests or the pages, each with the words that replaced it."""
READ_BY_PEOPLE = {".py", ".c", ".h", ".cpp", ".css", ".js", ".md", ".toml", ".txt"}


def retired_words(text: str) -> list[str]:
    """The retired words in a text, names and parts of names included."""
    return sorted(word for word in RETIRED if word in text.lower())


@for_each(
    lambda: (
        path
        for folder in ("nbcompile", "docs", "notebooks", "tests", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in READ_BY_PEOPLE and path != Path(__file__) and "_build" not in path.parts
    )
)
def test_retired_words_do_not_come_back(path: Path):
    """No file has a word that the glossary replaced, nor does its name."""
    assert retired_words(f"{path.name} {path.read_text(encoding='utf-8', errors='replace')}") == []


def test_the_rule_about_words_can_fail():
    """A private word is found; torch's in-place, a placeholder and a unit in the last place are not."""
    assert retired_words("class NoRefusal: ...") == ["refus"]
    assert private_words("Made in one place.\nIt is told in place of that.", PRIVATE_PROSE) == ["made", "place", "told"]
    assert (
        private_words("An in-place write; written in place; a placeholder; one unit in the last place", PRIVATE_PROSE)
        == []
    )


def _docstring(node: ast.AST) -> str:
    """A string that is a statement: of a module, class or function, or below a field."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value.value
    return ""


@each_module
def test_each_is_no_name(path: Path):
    """No parameter is called ``each``, nor is a variable that lives longer than a line."""
    tree = tree_of(path)
    short = {
        id(node)
        for comprehension in ast.walk(tree)
        if isinstance(comprehension, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
        and comprehension.lineno == comprehension.end_lineno
        for node in ast.walk(comprehension)
    }
    stored = [
        node.lineno
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Name)
            and node.id == "each"
            and isinstance(node.ctx, ast.Store)
            and id(node) not in short
        )
        or (isinstance(node, ast.arg) and node.arg == "each")
    ]
    assert stored == []


PARTICIPLE = re.compile(
    r"(?:[a-z]ed|[a-z]ing|Held|Hidden|Kept|Known|Laid|Left|Lent|Made|Met|Put|Read|Said|Seen|Sent|Shown|Told|Taken|Written)$"
)
NOUNS = {
    "Embedding", "Folding", "Lowering", "NoLowering", "OperatorWarning", "Padding", "Spelling", "String", "UnsupportedTorchWarning",
    "Masked", "Unsupported", "Finding", "Listing", "Meaning", "ClaimFailed", "ExampleFailed", "RepositoryRejected",
    "TimeLimitExceeded",
}  # fmt: skip
"""Nouns that end like participles, names that torch has given (``ops.masked``, ``exc.Unsupported``), and exceptions that say
what happened, as ``subprocess.TimeoutExpired`` does."""


def classes(package: str) -> Iterator[tuple[str, str]]:
    """The module and the name of each class of a package."""
    for path in sorted((PACKAGE / package).rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                yield named(path), node.name


@pytest.mark.parametrize(
    "package", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent != SCHEMA)
)
def test_classes_are_nouns(package: str):
    """No class is called by a bare participle (``Kept``, ``Watched``)."""
    assert [
        found for found in classes(package) if PARTICIPLE.search(found[1]) and found[1].lstrip("_") not in NOUNS
    ] == []


def test_the_rule_about_participles_can_fail():
    """Participles are found, nouns are not."""
    assert all(PARTICIPLE.search(name) for name in ("Watched", "Kept", "Recording", "_Held"))
    assert not any(PARTICIPLE.search(name) for name in ("AliasCheck", "Partition", "JointGraph"))


HEADLESS = re.compile(
    r"(?:What|Whether|How|Where|Of|Which|Why|So|When|Who|And|As|That|Those|"  # a relative clause
    r"It|They|Its|Their|This|These|Such|There|Nothing|Something|Whatever|Whoever|Either|"  # a pronoun
    r"In|At|On|By|For|From|To|After|Before|Between|With|Without|Under|While|Once|If|Only|Not|May|Is|"  # a phrase
    r"Added|Asked|Called|Created|Entered|Given|Joined|Kept|Moved|Played|Printed|Tried|Looking|Making|Reading)\b"  # a participle
)
"""Beginnings of a docstring that leave open what it is about."""


@each_module
def test_docstrings_begin_with_a_noun_or_a_verb(path: Path):
    """No docstring, of a field either, opens with a relative clause, a pronoun, a preposition or a participle."""
    found = [
        f"{node.lineno} {node.value.value.splitlines()[0]}"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if HEADLESS.match(node.value.value.strip())
    ]
    assert found == []


DEEP_CLASSES = {"DequeVariable"}
"""Classes with more than four ancestors of ours in a row: none may be added."""


def test_inheritance_is_shallow():
    """A variable tracker has at most three ancestors of ours in a row, any other class at most two."""
    bases: dict[str, list[str]] = {}
    trackers = set()
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                if path.is_relative_to(PACKAGE / "tracing" / "variables"):
                    trackers.add(node.name)
    ancestry = nx.DiGraph((name, base) for name, found in bases.items() for base in found if base in bases)
    ancestry.remove_edges_from(list(nx.selfloop_edges(ancestry)))
    for name in ancestry:
        chain = nx.dag_longest_path_length(ancestry.subgraph({name, *nx.descendants(ancestry, name)}))
        assert chain <= (3 if name in trackers else 2) or name in DEEP_CLASSES, f"{name}: {chain} ancestors in a row"


COMPLEXITY = 15


def complexity(function: ast.AST) -> int:
    """The number of decisions plus one: branch, loop, handler, operand of and/or, filter. Cases of a match are free."""
    decisions, waiting = 1, list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue  # counted itself
        decisions += isinstance(node, (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler))
        decisions += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        decisions += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
        waiting += ast.iter_child_nodes(node)
    return decisions


def test_functions_take_few_decisions():
    """No function takes more than fifteen decisions outside of a match."""
    found = [
        f"{named(path)} {node.name}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and complexity(node) > COMPLEXITY
    ]
    assert found == []


@pytest.mark.parametrize(("source", "expected"), [
    ("def f(a, b): return a", 1),
    ("def f(a, b):\n if a and b: return 1\n return [c for c in a if c]", 5),
    ("def f(a):\n match a:\n  case 1: return 2\n  case 2: return 3", 1),
])  # fmt: skip
def test_complexity_counts_decisions(source: str, expected: int):
    """A branch, an operand and a filter are decisions; a case of a match is none."""
    assert complexity(ast.parse(source).body[0]) == expected


PARAMETERS = 6
WIDE_FUNCTIONS = 24
"""Functions that have more; the number may only fall. Most implement an operator, whose schema they repeat."""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Names of a function's parameters, without ``self`` and ``cls``."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in names if name not in ("self", "cls")]


def test_functions_take_few_parameters():
    """Not more functions than before take more than six parameters: arguments that travel together are one object."""
    found = [
        f"{named(path)} {node.name}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(parameters(node)) > PARAMETERS
    ]
    assert len(found) <= WIDE_FUNCTIONS, found


TERM = re.compile(r"^(\S.*)\n  \S", re.MULTILINE)


def glossary() -> dict[str, str]:
    """Terms and their definitions."""
    text = (ROOT / "docs" / "glossary.md").read_text().partition("```{glossary}\n")[2].partition("\n```")[0]
    entries = [entry.partition("\n") for entry in text.split("\n\n")]
    return {term.strip(): definition for term, _, definition in entries}


def test_the_glossary_leads_to_the_code():
    """Each term of the glossary is defined once, in alphabetical order, and names modules that exist."""
    terms = glossary()
    assert len(terms) > 90
    assert list(terms) == sorted(terms, key=str.lower)
    assert private_words(" ".join(terms.values()), PRIVATE_PROSE) == []
    names = [name for text in terms.values() for part in re.findall(r"\[(`[^]]+)\]", text) for name in part.split(", ")]
    assert len(names) > 60
    assert [name for name in names if not (PACKAGE / name.strip("`")).exists()] == []


FORMER = {"warm/tensors.py", "docs/measured_on_gpu.md"}
"""Files on pages about the design that are no more, or are made by a command."""
A_FILE = re.compile(r"((?:\w+/)+\w+\.(?:py|c|h|cpp|md))\b")
A_NAME = re.compile(r"(?:nbcompile\.)?((\w+)(?:\.(?!(?:py|c|h|md|js|css)\b)\w+)+)")


def defined(path: Path) -> set[str]:
    """Names that a module defines, imports, or sets as attributes."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.rpartition(".")[2])
    return found


def leads_to_code(dotted: str) -> bool:
    """True if ``package.module.name`` exists, whatever follows the name."""
    here = PACKAGE
    for part in dotted.split("."):
        if (here / part).is_dir():
            here /= part
        elif here.is_dir() and (here / f"{part}.py").exists():
            here /= f"{part}.py"
        else:
            return part in defined(here / "__init__.py" if here.is_dir() else here)
    return True


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "design").glob("*.md")), ids=lambda page: page.stem)
def test_pages_about_the_design_lead_to_the_code(page: Path):
    """Files between backticks exist, and so do dotted names that begin with a package of ours."""
    packages = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} - {
        "record"
    }  # a variable, too
    roots = (PACKAGE, PACKAGE / "tracing", ROOT, TORCH.parent, TORCH)
    missing = []
    for text in sorted(set(re.findall(r"`([^`\n]+)`", page.read_text()))):
        if found := A_FILE.match(text):
            missing += [found[1]] if not any((root / found[1]).exists() for root in roots) else []
        elif (found := A_NAME.match(text)) and found[2] in packages and not leads_to_code(found[1]):
            missing.append(found[1])
    assert set(missing) - FORMER == set()


A_CONTRACT = re.compile(r"`([a-z_]\w*(?:\.\w+)+)\(([^`]*)\)`")


def function_at(dotted: str) -> ast.FunctionDef:
    """The function of ``package.module.name``, or of ``package.name`` in one of the package's modules."""
    *folders, name = dotted.split(".")
    here = PACKAGE.joinpath(*folders)
    files = [here.with_suffix(".py")] if here.with_suffix(".py").exists() else sorted(here.glob("*.py"))
    files = files or sorted(PACKAGE.glob(f"*/{folders[-1]}.py"))  # `entries.graph`
    [found] = [
        node for file in files for node in tree_of(file).body if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    return found


def parameters_differ(text: str, function: ast.FunctionDef) -> bool:
    """True unless a page's parameters, ``a, b, c=, ...``, are those of the function, in order."""
    given = [one.strip() for one in text.split(",") if one.strip()]
    is_open = "..." in given
    positional = [one for one in given if one != "..." and not one.endswith("=")]
    own = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    by_name = {one.arg for one in function.args.kwonlyargs} | set(own)
    if {one.rstrip("=") for one in given if one.endswith("=")} - by_name:
        return True
    required = len(own) - len(function.args.defaults)
    return own[: len(positional)] != positional or (not is_open and len(positional) < required)


NO_RESULT = {"Any", "Callable", "Iterator", "Sequence", "str"}
"""Names in an annotation that say nothing about which stage's type it is."""


def results_missing(text: str, function: ast.FunctionDef) -> list[str]:
    """The types in a function's return annotation, and None, that a description of its result does not name."""
    nodes = [node for node in ast.walk(function.returns) if node is not None]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    modules = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in modules}
    said = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", text))))
    missing = sorted(names - NO_RESULT - {"fx"} - said)
    may_be_none = any(isinstance(node, ast.Constant) and node.value is None for node in nodes)
    return [*missing, "None"] if may_be_none and "None" not in text else missing


def test_contracts_are_those_of_the_code():
    """Each function in the table exists, has these parameters in this order, returns these types, and is in this file."""
    page = (ROOT / "docs" / "design" / "contracts.md").read_text()
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| `")]
    found = [
        (name, text) for row in rows for name, text in A_CONTRACT.findall(row[0]) if not name.startswith("api.explain")
    ]
    assert len(found) > 15
    assert [name for name, text in found if parameters_differ(text, function_at(name))] == []
    results = [(name, row[3]) for row in rows for name, _ in A_CONTRACT.findall(row[0]) if name != "api.explain"]
    assert [(name, missing) for name, text in results if (missing := results_missing(text, function_at(name)))] == []
    folders = [row[1].strip() for row in rows]
    assert [folder for folder in folders if not (PACKAGE / folder).exists()] == []


def test_the_rule_about_contracts_can_fail():
    """A parameter of another name, in another order, or one that is left out without dots is found."""
    function = ast.parse("def f(a, b, c=1, *, d=2): pass").body[0]
    assert not any(parameters_differ(text, function) for text in ("a, b", "a, ...", "a, b, c", "a, b, d="))
    assert all(parameters_differ(text, function) for text in ("b, a", "a", "a, x", "a, b, e="))


def test_the_rule_about_results_can_fail():
    """A type that the description does not name, or names only in a sentence, is found; so is a None."""
    function = ast.parse("def f() -> Callable[..., ir.Program] | None: pass").body[0]
    assert results_missing(" `ir.buffer.Program`, or None", function) == []
    assert results_missing("a Program, or None", function) == ["Program"]
    assert results_missing("`Schedule`", function) == ["Program", "None"]


NO_PROSE = re.compile(r"#\s*(?:--|type:|noqa|fmt:|ruff|mypy|pragma)")
COMMENTS = 0.054
"""Prose comments for each line of code or docstring, at least; the number only becomes larger."""


def comments(text: str) -> tuple[int, int]:
    """The number of prose comments, and of lines with code or a docstring."""
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    prose, code = 0, set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            prose += not NO_PROSE.match(token.string)
        elif token.type not in layout:
            code.add(token.start[0])
    return prose, len(code)


def test_comments_do_not_become_fewer():
    """The ratio of comments to code does not decrease: comments say why."""
    counted = [comments(path.read_text()) for path in modules()]
    assert sum(prose for prose, _ in counted) >= COMMENTS * sum(lines for _, lines in counted)


def test_types_go_in_no_large_circle():
    """No cycle of modules, with imports for annotations, has more than two."""
    imports = grimp.build_graph("nbcompile", exclude_type_checking_imports=False, cache_dir=None)
    arrows = nx.DiGraph(
        (importer, imported)
        for importer in imports.modules
        for imported in imports.find_modules_directly_imported_by(importer)
    )
    circles = [sorted(circle) for circle in nx.strongly_connected_components(arrows) if len(circle) > 2]
    assert circles == []


GROUND = {"annotations", "config", "errors", "hooks", "options", "record", "stance", "support", "torch_internals"}
"""Rooms that every other one may use: settings, errors, plain data, names of torch's."""
DATA = {"bytecode", "capture", "ir"}
"""Rooms of the types that stages hand over."""
DOORS = {"__main__", "api", "jupyter", "peer", "sphinx_ext", "teach", "tools", "views"}
"""Rooms that users come in by: each uses whatever it shows."""
WORK = {
    "driver": {"backends", "dispatch", "guarding", "recording", "rewriting", "tracing"},  # the stages, in order
    "backends": {"aot", "codegen", "gpu", "lowering", "recording", "runtime", "scheduling"},  # the same, for a graph
    "gpu": {"codegen", "lowering", "runtime", "scheduling"},  # the same, for a graph on a GPU
    "eval_frame": {"dispatch", "recording"},  # a call switches the hook on, and is logged
    "recording": {"dispatch", "guarding", "observe", "rewriting", "tracing"},  # it describes what stages returned
    "fast": {"aot", "backends", "dispatch", "guarding", "recording", "rewriting", "runtime"},  # what it replaces
}
"""The other rooms that use one another, with the reason."""


@functools.cache
def arrows() -> frozenset[tuple[str, str]]:
    """Pairs of a folder or loose module of the package, and another one that it imports from."""
    imports = grimp.build_graph("nbcompile", exclude_type_checking_imports=True, cache_dir=None)
    found = {
        (importer.split(".")[1], imported.split(".")[1])
        for importer in imports.modules
        for imported in imports.find_modules_directly_imported_by(importer)
        if importer.count(".") and imported.count(".")
    }
    return frozenset(arrow for arrow in found if arrow[0] != arrow[1])


def test_rooms_that_work_use_no_others_than_are_listed():
    """A package in the middle layers imports another one only if the table has a reason."""
    found: dict[str, set[str]] = {}
    for importer, imported in arrows():
        if importer not in DOORS | GROUND | DATA and imported not in GROUND | DATA:
            found.setdefault(importer, set()).add(imported)
    assert found == WORK


TABLES = {
    "lowering/registry.py LOWERINGS", "tracing/breaks.py KINDS", "tracing/calls/registry.py _HANDLERS",
    "tracing/calls/registry.py _NAMED", "tracing/calls/registry.py _OF_CLASSES", "tracing/calls/registry.py _POLYFILLS",
    "tracing/frame/instruction_table.py HANDLERS", "tracing/variables/tensor.py TENSOR_METHODS",
}  # fmt: skip
"""Module-level tables that imports fill, and nothing changes afterwards."""
MUTATIONS = {
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update",
}  # fmt: skip
LOCKS = {"ContextVar", "Lock", "RLock"}


def changed_variables(tree: ast.Module) -> dict[str, ast.expr]:
    """The module-level variables whose objects a function changes, by assignment, a method or ``next``."""
    values = {}
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    changed = set()
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATIONS:
                    changed.add(name)
                case ast.Call(func=ast.Name(id="next"), args=[ast.Name(id=name)]):
                    changed.add(name)
                case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                    changed.add(name)
                case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                    changed.add(name)
                case ast.Global(names=names):
                    changed |= set(names)
    return {name: value for name, value in values.items() if name in changed}


@each_module
def test_state_has_one_owner(path: Path):
    """A module-level object that functions change is registered under its own name, or is a table that imports fill."""
    name = str(path.relative_to(PACKAGE))
    dotted = name.removesuffix(".py").replace("/", ".")
    for variable, value in changed_variables(tree_of(path)).items():
        called = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
        if f"{name} {variable}" in TABLES or called.rpartition(".")[2] in LOCKS:
            continue
        assert called == "STATE.add", f"{name}: {variable} = {ast.unparse(value)}"
        assert ast.literal_eval(value.args[0]) == f"{dotted}.{variable}"


def test_the_rule_about_state_can_fail():
    """A list that a function appends to is found; a constant and a local variable are not."""
    assert set(changed_variables(ast.parse("a = []\ndef f(x): a.append(x)"))) == {"a"}
    assert set(changed_variables(ast.parse("a = [0]\nb = [1]\ndef f():\n a[0] = b[0]"))) == {"a"}
    assert changed_variables(ast.parse("A = (1, 2)\ndef f():\n b = []\n b.append(A)")) == {}


def test_the_machine_model_states_units_and_measurements():
    """Each constant of the machine model has a unit, and says where it was measured, or that it was not."""
    tree = ast.parse((PACKAGE / "codegen" / "machine_model.py").read_text())
    constants = [at for at, node in enumerate(tree.body) if isinstance(node, ast.Assign)]
    texts = [unwrapped(ast.unparse(tree.body[at + 1])) for at in constants]
    assert constants
    for text in texts:
        assert re.match(r"""['"]+[A-Z][a-z]+[a-z ,]*: """, text), f"no unit: {text}"
        assert re.search(r"[Mm]easured|Predicted|By definition|By accuracy", text), f"no measurement: {text}"


WITHOUT_TEST = 0
"""Modules without a test at the mirrored path; the number only becomes smaller."""


def imported_from_tests(path: Path) -> Iterator[tuple[Path, str]]:
    """The modules of ``tests/`` that a test imports names from, and the names."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "tests":
            module = ROOT / node.module.replace(".", "/")
            for alias in node.names:
                yield module, alias.name


def test_tests_import_what_is_there():
    """Each name that a test imports from ``tests/`` exists."""
    missing = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for module, name in imported_from_tests(path):
            file = module.with_suffix(".py")
            if not (name in defined(file) if file.exists() else (module / f"{name}.py").exists()):
                missing.append(f"{named(path)}: {module.relative_to(ROOT)} {name}")
    assert missing == []


def has_mirrored_test(path: Path) -> bool:
    """True if ``tests/`` has the module's test at its own path, or in a file that begins with its name."""
    folder = ROOT / "tests" / path.relative_to(PACKAGE).parent
    return any(folder.glob(f"test_{path.stem}.py")) or any(folder.glob(f"test_{path.stem}_*.py"))


def test_tests_mirror_the_tree():
    """``nbcompile/record/codec.py`` has its test in ``tests/record/test_codec.py``: for more and more modules."""
    missing = [
        named(path) for path in modules() if path.stem not in ("__init__", "__main__") and not has_mirrored_test(path)
    ]
    assert len(missing) <= WITHOUT_TEST, f"{len(missing)} modules: {missing}"
