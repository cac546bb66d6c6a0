"""Logs, debug folders and traces as of torch.compile, from the records of finished frames.

    recorder.subscribers.extend(SUBSCRIBERS)      api.py does this; without an active log, nothing is recorded

In torch: torch/_logging/. Read next: nbcompile/observe/artifact_logs.py
"""

from nbcompile.observe.artifact_logs import ArtifactLogs
from nbcompile.observe.debug_folder import DebugFolder
from nbcompile.observe.metrics import COUNTS
from nbcompile.observe.structured_trace import StructuredTrace

SUBSCRIBERS = (ArtifactLogs(), DebugFolder(), StructuredTrace(), COUNTS)
