"""Messages of a compile, as users of torch.compile know them: warnings, logs and counters of breaks and side effects.

    log_breaks(reports, "0/0")                   a warning, TORCH_LOGS=graph_breaks, counters["graph_break"]
    log_side_effects(trace, residual, "0/0")     TORCH_LOGS=side_effects, and the action of
    config.side_effect_replay_policy

In torch: torch/_dynamo/exc.py (unimplemented), torch/_dynamo/side_effects.py. Read next:
nbcompile/observe/torch_logs.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile import config, errors
from nbcompile.capture.trace import Trace
from nbcompile.observe import dynamo_counters, torch_logs
from nbcompile.record import model, recorder
from nbcompile.rewriting import residual as rewriting
from nbcompile.support import users_line
from nbcompile.tracing import breaks


def log_breaks(reports: Sequence[model.Break], compile_id: str, is_skipped: bool = False) -> None:
    """Warn of graph breaks (unless a view shows them), log and count them; ``is_skipped``: the frame is skipped."""
    warn_of_breaks(reports)
    torch_logs.graph_break(reports, compile_id)
    dynamo_counters.count_breaks(reports, is_skipped)


def warn_of_breaks(reports: Sequence[model.Break]) -> None:
    """Warn of graph breaks, once for each message, unless a view shows them."""
    if recorder.shows_breaks():
        return
    for report in reports:
        if breaks.KINDS[report.kind].warns:
            torch_logs.warn_once(report)


def log_side_effects(trace: Trace, residual: rewriting.Residual, compile_id: str) -> None:
    """Log replayed side effects, according to config.side_effect_replay_policy.

    Raises:
        RuntimeError: the policy is ``error``, and there are some.
    """
    policy = config.side_effect_replay_policy
    if not trace.mutations or policy == "silent":
        return
    torch_logs.side_effects(lambda: narrate_mutations(trace, residual), compile_id)
    if policy in ("warn", "error"):
        changed = ", ".join(dict.fromkeys(target for target, _ in residual.effects if target))
        text = f"The function changes what others can see; it is replayed after the graph. Changed: {changed}"
        if policy == "error":
            raise errors.ReplayedSideEffects(text)
        users_line.warn(text, errors.SideEffectWarning)


def narrate_mutations(trace: Trace, residual: rewriting.Residual) -> tuple[model.Mutation, ...]:
    """The side effects, in words and as the statements that replay them."""
    return tuple(
        model.Mutation(type(mutation).__name__, target, code, getattr(mutation, "stack", ()))
        for mutation, (target, code) in zip(trace.mutations, residual.effects, strict=True)
    )
