"""Predict, then reveal: questions about a program, whose answers are computed from its record.

    How many graphs does `f` become?       a. 1    b. 2    c. 3
        Answer: b. The graph break B1 (print) ended 0/0 at line 3; 1/0 resumes after it.
    Which entry of `f` accepts a call with x one longer in dimension 0 (4 instead of 3)?
        a. 0/0    b. none: it is compiled again
        Answer: b. 0/0 rejects the call, as this does not hold: x has size 3 in dimension 0.

All choices, answers and reasons are computed from the record, and hypothetical calls are evaluated by the guards
themselves. Without scripts an answer unfolds below each question.

In torch: nothing. Read next: nbcompile/views/static/predict.js
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from nbcompile.record import links, trees
from nbcompile.record.model import CompiledFrame, Guard, Record
from nbcompile.views import break_sentences, costs, facts, lines
from nbcompile.views.markup import Limits, prose, section, tag
from nbcompile.views.what_if import compiled_calls, literal

MOST = 12
"""Number of questions per record."""
CHOICES = 6
"""Number of lines to choose from."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question; `code` is between backticks in all its texts."""

    text: str
    choices: tuple[str, ...]
    answer: int
    because: str


def questions(record: Record) -> list[Question]:
    """All questions about a record, in the order of the page."""
    compiled = [each for each in record.frames if each.status == "compiled"]
    chosen_questions = [
        *_graphs(record, compiled), *_breaks(record), *_calls(record), *_kernels(compiled), *_on_a_gpu(compiled)
    ]  # fmt: skip
    return chosen_questions[:MOST]


# --- what became of the program ----------------------------------------------------------------


def _graphs(record: Record, compiled: list[CompiledFrame]) -> Iterator[Question]:
    # Recompilations have questions of their own.
    first = [each for each in compiled if not each.failed_guards]
    if not first:
        return
    number = sum(each.graph is not None for each in first)
    ended = [f"`{each.id}` {break_sentences.ended_by(each, links.distinct_breaks(record))}" for each in first]
    text = f"How many graphs does `{record.function}` become, before any recompilation?"
    yield _of_numbers(text, number, "; ".join(ended))


def _of_numbers(text: str, number: int, because: str) -> Question:
    # The answer is one of four non-negative numbers, at a position that a checksum gives: hashes of texts differ
    # between processes, and a record must give the same page in each.
    low = number - zlib.crc32(text.encode()) % (min(number, 3) + 1)  # not always the same letter
    return Question(text, tuple(str(low + step) for step in range(4)), number - low, because)


def _statements(frame: CompiledFrame) -> list[tuple[int, str]]:
    """Lines of the body that hold code, with their numbers."""
    lines = [(number, text.strip()) for number, text in enumerate(frame.source.split("\n"), frame.first_line)]
    return [(number, text) for number, text in lines[1:] if text and not text.startswith(("#", '"', "@", "def "))]


def _breaks(record: Record) -> Iterator[Question]:
    for frame in record.frames:
        code = _statements(frame)
        if frame.status != "compiled" or frame.resumes or frame.failed_guards or len(code) < 2:
            continue
        broken = links.own_line(frame, frame.breaks[0].stack) if frame.breaks else None
        at = next((index for index, (number, _) in enumerate(code) if number == broken), None)
        if frame.breaks and at is None:
            continue
        # A window of lines around the answer, moved to the inside at both ends of the function.
        begin = max(0, min((at or 0) - CHOICES // 2, len(code) - CHOICES))
        shown = code[begin : begin + CHOICES]
        choices = (*(f"line {number}: `{text}`" for number, text in shown), "none: it runs to its return")
        because = frame.breaks[0].explanation if frame.breaks else "Every instruction could be traced."
        answer = len(shown) if at is None else at - begin
        yield Question(f"At which line does the first graph of `{frame.function}` end?", choices, answer, because)


def _kernels(compiled: list[CompiledFrame]) -> Iterator[Question]:
    for frame in compiled:
        generated_code, operators = frame.compiled_graph, links.operators(frame.graph)
        # One operator is one kernel: no question.
        if generated_code is None or not generated_code.kernels or frame.failed_guards or len(operators) < 2:
            continue
        generated = [each for each in generated_code.kernels if each.language != "aten"]
        names = {node.id: node.name for node in operators}
        found = links.frame_links(frame)
        work = {each.name: (names[node] for node in found.captured(each.id) if node in names) for each in generated}
        parts = [f"`{name}` computes {facts.shortened(computed)}" for name, computed in work.items()]
        called = facts.count(len(generated_code.kernels) - len(generated), "operator")
        because = "; ".join((*parts, f"{called} left to ATen"))
        text = f"Graph `{frame.id}` has {len(operators)} operators. How many kernels are generated for it?"
        yield _of_numbers(text, len(generated), because)


def _on_a_gpu(compiled: list[CompiledFrame]) -> Iterator[Question]:
    """Questions about kernels that were simulated for a GPU: coalescing, occupancy and bottleneck of the worst."""
    kernels = [kernel for frame in compiled if frame.compiled_graph for kernel in frame.compiled_graph.kernels]
    ran = [(kernel, kernel.gpu) for kernel in kernels if kernel.gpu is not None and kernel.gpu.blocks]
    if not ran:
        return
    # The worst one needs an explanation.
    kernel, gpu = min(ran, key=lambda pair: pair[1].coalescing)
    line = max(gpu.lines, key=lambda line: line.moved - line.least)
    text = kernel.source.splitlines()[line.line - 1].strip()
    yield _of_shares(
        f"What share of the bytes that `{kernel.name}` moves do its threads use?", gpu.coalescing,
        f"`{text}` moves {costs.words(line.moved)} in sectors of 32 bytes, where {costs.words(line.least)} would do"
        if line.moved > line.least
        else f"no line moves more sectors than its threads use; {costs.words(gpu.moved)} in all",
    )  # fmt: skip
    kernel, gpu = min(ran, key=lambda pair: pair[1].occupancy)
    yield _of_shares(
        f"`{kernel.name}` has blocks of {gpu.threads} threads, each with {gpu.registers} registers of 32 bits, and "
        f"{gpu.shared_bytes} bytes of shared memory. What share of a multiprocessor's threads can be resident?",
        gpu.occupancy, "registers, threads and shared memory of a multiprocessor are given out in whole blocks",
    )  # fmt: skip
    kernel, gpu = max(ran, key=lambda pair: pair[1].predicted_us / pair[1].roofline_us)
    limits = ("memory", "issue", "latency", "matrix")
    yield Question(
        f"What does `{kernel.name}` wait for most: memory's bandwidth, issue of instructions, latency of loads, "
        "or matrix units?",
        limits, limits.index(gpu.limit),
        f"{facts.count(gpu.blocks, 'block')}; predicted {gpu.predicted_us:.1f} µs, and {gpu.roofline_us:.1f} µs at the "
        "full bandwidth, 2 µs for the launch in both",
    )  # fmt: skip


def _of_shares(text: str, share: float, because: str) -> Question:
    """A question about a share; the choices are powers of two, and the nearest one is right."""
    choices = (1.0, 0.5, 0.25, 0.125)
    # Nearest as a ratio: 0.36 is nearer to 0.5 than to 0.25. A share of zero has no logarithm.
    answer = min(range(len(choices)), key=lambda at: abs(math.log2(max(share, 0.01) / choices[at])))
    shown = tuple(f"about {choice:.0%}".replace("%", " %") for choice in choices)
    return Question(text, shown, answer, f"exactly {share:.0%}: ".replace("%", " %") + because)


# --- calls -------------------------------------------------------------------------------------

Values = dict[str, trees.Value]


def _calls(record: Record) -> Iterator[Question]:
    for frames in compiled_calls(record):
        if frames[0].resumes or not all(guard.test for frame in frames for guard in frame.guards):
            continue  # no call by name, or its guards cannot be evaluated here
        for index, frame in enumerate(frames[1:], 1):
            yield from _next_call(frames[:index], frame)
        for words, call in _variations(frames[-1]):
            yield _entry_question(frames, call, f"Which entry of `{frames[-1].function}` accepts a call with {words}?")


def _next_call(frames: tuple[CompiledFrame, ...], following: CompiledFrame) -> Iterator[Question]:
    """The call that was compiled next, described by what differs from the one before."""
    before, now = _values(frames[-1]), _values(following)
    # Readings are the values that guards read. Ids, keys and marks are named only if no value that a reader knows
    # differs.
    differ = [name for name in now if name in before and not trees.same_value(now[name], before[name])]
    named = [name for name in differ if not name.startswith(("id(", "keys(", "marked("))] or differ
    words = facts.shortened((f"`{facts.readable(name)} = {now[name]!r}`" for name in named), 3)
    if words:
        entries = facts.shortened(f"`{each.id}`" for each in frames)
        text = f"`{following.function}` has been compiled as {entries}. Which entry accepts a call with {words}?"
        yield _entry_question(frames, {**before, **now}, text)


def _entry_question(frames: tuple[CompiledFrame, ...], call: Values, text: str) -> Question:
    newest = tuple(reversed(frames))
    # As the cache does: newest entry first, and for each the first guard that fails.
    failed = [next((guard for guard in each.guards if not holds(guard, call)), None) for each in newest]
    hit = next((index for index, guard in enumerate(failed) if guard is None), None)
    full = len(frames) >= (newest[0].recompile_limit or len(frames) + 1)
    choices = (*(f"`{each.id}`" for each in newest), "none: it is compiled again", "none: it runs eagerly")
    reasons = [
        f"`{entry.id}` rejects the call, as this does not hold: {guard.words or facts.readable(guard.condition)}"
        for entry, guard in zip(newest, failed, strict=True)
        if guard is not None
    ]
    if hit is not None:
        reasons = [*reasons[:hit], f"all guards of `{newest[hit].id}` hold"]
    elif full:
        reasons.append(f"there are {len(frames)} entries, and no more are created")
    # The two last choices: compiled again, or (the limit is reached) eager.
    answer = hit if hit is not None else len(newest) + full
    return Question(text, choices, answer, "; ".join(reasons))


def holds(guard: Guard, call: Mapping[str, trees.Value]) -> bool:
    """Return whether a guard holds for a call; it fails if a value cannot be read or compared."""
    tree = trees.load(guard.test)
    try:
        return tree is not None and bool(trees.evaluate(tree, call))
    except (LookupError, ArithmeticError, TypeError, ValueError):
        return False


def _values(frame: CompiledFrame) -> Values:
    return {each.name: literal(each.value) for each in frame.readings}


def _variations(frame: CompiledFrame) -> Iterator[tuple[str, Values]]:
    """The compiled call with one thing changed: a size, a dtype, a number."""
    call = _values(frame)
    tensors = [name.removesuffix(".dim()") for name in call if name.endswith(".dim()")]
    for tensor in tensors[:1]:
        size, who = call.get(f"{tensor}.size()[0]"), facts.readable(tensor)
        if isinstance(size, int):
            changed = {**call, f"{tensor}.size()[0]": size + 1}
            yield f"`{who}` one longer in dimension 0 ({size + 1} instead of {size})", changed
        if f"{tensor}.dtype" in call:
            other = "torch.float64" if call[f"{tensor}.dtype"] != "torch.float64" else "torch.float32"
            yield f"`{who}` of dtype {other.removeprefix('torch.')}", {**call, f"{tensor}.dtype": other}
    for name, value in call.items():
        if type(value) in (int, float) and name.startswith("L['") and name.endswith("']"):
            yield f"`{facts.readable(name)} = {value + 1!r}`", {**call, name: value + 1}  # type: ignore[operator]
            return


# --- on the page -------------------------------------------------------------------------------


def render(record: Record, limits: Limits) -> Markup | None:
    """Render the questions, each with an answer to unfold."""
    chosen_questions, more = limits.cut(questions(record))
    if not chosen_questions:
        return None
    items = [tag("li", _question(each), data_a=each.answer) for each in chosen_questions]
    about = f"{facts.count(len(chosen_questions), 'question')}; the answers are worked out from the record"
    return section("predict", "Predict", tag("ol", items, class_="n-questions"), more, about=about, is_open=True)


def _question(question: Question) -> Markup:
    letter = _letter(question.answer)
    choices = tag("ol", [tag("li", prose(each)) for each in question.choices], type="a")
    answer = tag("p", tag("b", f"{letter}. "), prose(question.choices[question.answer]), ". ", prose(question.because))
    return Markup("").join((tag("p", prose(question.text)), choices, tag("details", tag("summary", "Answer"), answer)))


def _letter(index: int) -> str:
    return chr(ord("a") + index)


def as_text(record: Record) -> Iterator[str]:
    """The questions, then their answers."""
    chosen_questions = questions(record)
    for number, question in enumerate(chosen_questions, 1):
        yield from lines.wrapped(f"{number}. {question.text}", "", "   ")
        for index, choice in enumerate(question.choices):
            yield from lines.wrapped(f"{_letter(index)}. {choice}", "   ", "      ")
    for number, question in enumerate(chosen_questions, 1):
        yield from lines.wrapped(f"Answer {number}: {_letter(question.answer)}. {question.because}", "", "   ")
