"""Scheduling, from buffers to kernels in order: ``schedule(program) -> ir.Schedule``.

In torch: torch/_inductor/scheduler.py. Read next: nbcompile/scheduling/plan.py
"""

from nbcompile.scheduling.plan import schedule

__all__ = ["schedule"]
