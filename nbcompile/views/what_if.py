"""Guard explorer: compiled calls in a table, and, with the script, a form for another call.

    x: shape        3, 4      5, 4      [ 7, 4 ]          Hit: 0/1 accepts the call, and runs.
    x: dtype        float32   float32   [ float32 ]       0/1 accepts    0/0 not checked
    k               2         2         [ 2 ]

The page evaluates the guards themselves (static/trees.js, static/what_if.js); nothing is sent anywhere.
Without scripts the table and the list of guards of each entry are static.

In torch: nothing; one calls the function and reads the log. Read next: nbcompile/views/static/what_if.js
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nbcompile.record import links, trees
from nbcompile.record.model import PREDICTED_DIMS, CompiledFrame, Reading, Record
from nbcompile.views import facts, figures, lines, recompile_causes
from nbcompile.views.markup import Limits, code, fold, row, section, table, tag

_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool")
_DEVICES = ("cpu", "cuda:0")
NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def render(record: Record, limits: Limits) -> Markup | None:
    """One table and one list of entries for each code object whose guards are known."""
    groups = compiled_calls(record)
    if not groups:
        return None
    shown, more = limits.cut(groups)
    parts = [_group(record, frames, limits, titled=len(groups) > 1) for frames in shown]
    return section(
        "what_if",
        "What if the call were another?",
        parts,
        more,
        about=_ABOUT,
        is_open=not recompile_causes.is_storm(record),
    )


_ABOUT = "which entry would it hit, and which guard fails"


def compiled_calls(record: Record) -> list[tuple[CompiledFrame, ...]]:
    """The entries of each code object, oldest first."""
    found = (tuple(filter(_is_known, group)) for group in links.entries(record))
    return [group for group in found if group]


def _is_known(frame: CompiledFrame) -> bool:
    """Return whether the guards of a frame can be evaluated for another call; not if a file damaged one of them."""
    return bool(frame.readings) and all(trees.load(guard.test) for guard in frame.guards)


def _conditions(frame: CompiledFrame) -> list[trees.Tree]:
    """The guards of a frame that is known, as trees."""
    return [tree for guard in frame.guards if (tree := trees.load(guard.test)) is not None]


def by_default(record: Record) -> bool:
    """Return whether the form is shown by default: after a recompilation."""
    return any(len(group) > 1 for group in compiled_calls(record))


def as_text(record: Record) -> Iterator[str]:
    """The compiled calls, one a column."""
    for group in compiled_calls(record):
        query = Query(group)
        rows = [
            (field.label, *(query.shown(field, frame) for frame in group))
            for field in sorted(query.fields(), key=_by_value)
            if not field.rare
        ]
        if rows:
            yield from lines.columns([(group[-1].function, *(frame.id for frame in group)), *rows])


def _group(record: Record, frames: tuple[CompiledFrame, ...], limits: Limits, *, titled: bool) -> Markup:
    query = Query(frames)
    fields = query.fields()
    usual = sorted((each for each in fields if not each.rare), key=_by_value)
    rare = [each for each in fields if each.rare]
    newest = tuple(reversed(frames))
    paths = [figures.of_frame(record, each) for each in newest]
    entries = [_entry(each, index, paths[index], limits) for index, each in enumerate(newest)]
    hidden = fold("Classes, identities and the state of the process", _calls("The same calls", rare, query))
    data = tag("script", Markup(as_script(query.data([*usual, *rare]))), type="application/json")
    title = tag("p", tag("b", code(frames[-1].function))) if titled else None
    calls = _calls("The calls that were compiled", usual, query)
    return tag("div", title, calls, hidden if rare else None, entries, data, class_="n-what")


def _by_value(field: Field) -> tuple[str, bool]:
    """The rows about one value together, its shape first."""
    who, _, what = field.label.partition(": ")
    return who, what not in ("shape", "strides")


def _calls(caption: str, fields: list[Field], query: Query) -> Markup:
    answers = ((each.label, [query.shown(each, frame) for frame in query.frames]) for each in fields)
    rows = [row(tag("th", label), *_answers(shown)) for label, shown in answers]
    return table(caption, ("", *(frame.id for frame in query.frames)), rows, grid=True)


def _answers(answers: list[str]) -> Iterator[Markup]:
    """A cell for each call; one wide cell where three or more calls have the same answer."""
    if len(answers) > 2 and len(set(answers)) == 1:
        yield tag("td", code(answers[0]), " ", tag("small", "in all calls"), colspan=len(answers))
    else:
        yield from map(code, answers)


def _entry(frame: CompiledFrame, index: int, path: str, limits: Limits) -> Markup:
    """Guards of an entry; the script evaluates each for the call."""
    order = "checked first" if index == 0 else "checked next"
    items = [
        tag("li", tag("span", guard.words or facts.readable(guard.condition)), " ", code(guard.condition))
        for guard in frame.guards
    ]
    shown, more = limits.cut(items)
    about = tag("small", f"{facts.count(len(frame.guards), 'guard')}, {order}", data_r=f"{path}.guards")
    title = (code(frame.id), " ", about, " ", tag("output", class_="n-chip"))
    return tag("details", tag("summary", title), tag("ol", shown), more, class_="n-entry")


# --- values that guards read from a call -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the table: readings that belong to one property of a value."""

    kind: str
    """``shape``, ``stride``, ``choice`` or ``value``."""
    label: str
    reads: tuple[str, ...]
    rare: bool = False


class Query:
    """All values that the guards of one code object read, with their values in each compiled call."""

    def __init__(self, frames: tuple[CompiledFrame, ...]) -> None:
        self.frames = frames
        self.calls = [{each.name: each for each in frame.readings} for frame in frames]
        self.names = list(dict.fromkeys(each.name for frame in frames for each in frame.readings))
        self.tensors = {match[1]: self._reads_of(match[1]) for name in self.names if (match := _RANK.match(name))}
        parts = (name for sizes, strides in self.tensors.values() for name in (*sizes, *strides))
        self.names = list(dict.fromkeys((*self.names, *parts)))

    def _reads_of(self, tensor: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The sizes and the strides of a tensor, of as many dims as it may have."""
        ranks = [literal(call[f"{tensor}.dim()"].value) for call in self.calls if f"{tensor}.dim()" in call]
        dims = range(max((PREDICTED_DIMS, *(rank for rank in ranks if isinstance(rank, int)))))
        return tuple(f"{tensor}.size()[{dim}]" for dim in dims), tuple(f"{tensor}.stride()[{dim}]" for dim in dims)

    def _varies(self, name: str) -> bool:
        if match := _PART.search(name):  # a dim that no call had is treated like the others
            tensor, had = name[: match.start()], any(name in call for call in self.calls)
            names = [name] if had else self.tensors.get(tensor, ((),))[0]
            return any(self._varies_itself(each) for each in names)
        return self._varies_itself(name)

    def _varies_itself(self, name: str) -> bool:
        return any(name in call and call[name].varies for call in self.calls)

    def fields(self) -> list[Field]:
        """Rows, in the order in which the guards are checked."""
        fields: list[Field] = []
        for name in self.names:
            if match := _RANK.match(name):
                sizes, strides = self.tensors[match[1]]
                who = facts.readable(match[1])
                fields.append(Field("shape", f"{who}: shape", (name, *sizes, *strides)))
                fields += [Field("stride", f"{who}: strides", strides)] if strides else []
            elif not _PART.search(name):
                fields.append(self._single(name))
        return fields

    def _single(self, name: str) -> Field:
        for pattern, words, rare in _SPELLINGS:
            if match := pattern.fullmatch(name):
                parts = [each.replace("_", " ") if rare is _STATE else facts.readable(each) for each in match.groups()]
                label = words.format(*parts)
                kind = "value" if rare is _FREE else "choice"
                return Field(kind, label, (name,), bool(rare))
        free = any(_is_free(call[name].value) for call in self.calls if name in call)
        rare = _ADDRESS.fullmatch(name) is None
        return Field("value" if free and not rare else "choice", facts.readable(name), (name,), rare)

    def shown(self, field: Field, frame: CompiledFrame) -> str:
        """Value of a call, as a cell."""
        call = self.calls[self.frames.index(frame)]
        if field.kind in ("shape", "stride"):
            #     reads = (rank, size 0, ..., size n, stride 0, ..., stride n)
            half = len(field.reads) // 2
            reads = field.reads[1 : 1 + half] if field.kind == "shape" else field.reads
            return "(" + ", ".join(call[each].value for each in reads if each in call) + ")"
        found = call.get(field.reads[0])
        if found is None:
            return ""
        return str(literal(found.value)) if field.kind == "choice" else found.value

    def _tensor_data(self, number: Mapping[str, int]) -> list[dict[str, Any]]:
        return [
            {"rank": number[f"{tensor}.dim()"], "sizes": [number[size] for size in sizes],
             "strides": [number[stride] for stride in strides], "type": number[f"type({tensor})"]}
            for tensor, (sizes, strides) in self.tensors.items()
        ]  # fmt: skip

    def data(self, fields: Iterable[Field]) -> dict[str, Any]:
        """Data of the script; guarded values are indices, trees are lists."""
        number = {name: index for index, name in enumerate(self.names)}
        # In the order in which entries are checked.
        newest = tuple(reversed(self.frames))
        values: Pool = Pool()
        tests: Pool = Pool()
        varies = [self._varies(name) for name in self.names]
        whole = [name for name in self.names if varies[number[name]] and not _PART.search(name)]
        return {
            "labels": [facts.readable(name) for name in self.names],
            "ids": [frame.id for frame in self.frames],
            "calls": [[values.add(_constant(call.get(name))) for name in self.names] for call in self.calls],
            "varies": list(map(int, varies)),
            "tensors": self._tensor_data(number),
            "numbers": [number[name] for name in whole],
            "entries": [[tests.add(packed(tree, number)) for tree in _conditions(frame)] for frame in newest],
            "fields": [
                [field.kind, [number[name] for name in field.reads], *map(values.add, self._choices(field))]
                for field in fields
            ],
            "limit": newest[0].recompile_limit, "values": values.items, "tests": tests.items,
        }  # fmt: skip

    def _choices(self, field: Field) -> list[trees.Tree]:
        if field.kind != "choice":
            return []
        name = field.reads[0]
        seen = list(dict.fromkeys(call[name].value for call in self.calls if name in call))
        if {*seen} <= {"True", "False"}:
            return [trees.constant(True), trees.constant(False)]
        usual = next((offered for ending, offered in _OFFERED if name.endswith(ending)), ("'another one'",))
        return [_value(each) for each in dict.fromkeys((*seen, *usual))]


class Pool:
    """Pool of distinct objects, referred to by index."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def add(self, item: Any) -> int:
        """The index of an item."""
        # A linear search, since dicts and lists have no hash. Numbers in a tree are text, so that 1 and True differ.
        if item not in self.items:
            self.items.append(item)
        return self.items.index(item)


_RANK = re.compile(r"(.*)\.dim\(\)$")
_PART = re.compile(r"\.(size|stride)\(\)\[\d+\]$")
_ADDRESS = re.compile(r"[LG]\[.*")
_STATE, _FREE = "state", ""
_SPELLINGS: tuple[tuple[re.Pattern[str], str, object], ...] = (
    (re.compile(r"process\.(.*)"), "{}", _STATE),
    (re.compile(r"type\((.*)\)"), "{}: class", True),
    (re.compile(r"keys\((.*)\)"), "{}: dispatch keys", True),
    (re.compile(r"id\((.*)\)"), "{}: which object", True),
    (re.compile(r"marked\((.*)\)"), "{}: a dim is newly marked", True),
    (re.compile(r"isinstance\((.*), dict\)"), "{}: is a dict", True),
    (re.compile(r"len\((.*)\)"), "{}: length", _FREE),
    (re.compile(r"(.*)\.requires_grad"), "{}: requires grad", False),
    (re.compile(r"(.*)\.dtype"), "{}: dtype", False),
    (re.compile(r"(.*)\.device"), "{}: device", False),
)
_OFFERED = (
    (".dtype", tuple(f"'torch.{each}'" for each in _DTYPES)),
    (".device", tuple(f"'{each}'" for each in _DEVICES)),
    ("_dtype", tuple(f"'torch.{each}'" for each in _DTYPES[:2])),
)


def _is_free(value: str) -> bool:
    """Return whether any other value can be typed in: for numbers, strings and None, but not for booleans."""
    return value not in ("True", "False")


def literal(text: str) -> trees.Value:
    """The value that Python writes as ``text``; the text itself in a record with damaged readings."""
    if text in NUMBERS:
        return NUMBERS[text]
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return text  # a damaged reading must not prevent the display of the record
    return value if value is None or isinstance(value, int | float | str) else text


def _value(text: str) -> trees.Tree:
    """A value as Python writes it, as a tree."""
    return trees.constant(literal(text))


def _constant(reading: Reading | None) -> trees.Tree | None:
    return None if reading is None else _value(reading.value)


def packed(tree: trees.Tree, number: dict[str, int]) -> Any:
    """A tree with lists for operators and numbers for readings: a third of the size."""
    #     {"op": "==", "of": [{"read": "L['n']"}, {"int": "3"}]}    ->    ["==", 4, {"int": "3"}]
    if "op" in tree:
        return [tree["op"], *(packed(operand, number) for operand in tree["of"])]
    return number.get(tree["read"], -1) if "read" in tree else tree


def as_script(data: Any) -> str:
    """JSON that is safe inside of HTML."""
    # ``</script>`` in a text would end the element; JSON can escape each character by its number.
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
