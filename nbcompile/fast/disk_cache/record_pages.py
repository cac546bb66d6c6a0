"""Records of stored frames: a load shows the record of the compile.

The page of the record is stored next to the entry. It is the same page (graph, guards, kernels, residual program: of
what now runs), under this process's compile id, and its cause says that nothing was compiled.

In torch: nothing. Read next: nbcompile/fast/disk_cache/entry.py
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nbcompile.record import codec, model
from nbcompile.record.recorder import FrameDraft

OF_ONE_PROCESS = ("failed_guards", "called_from", "resumes", "cause", "store")
"""The fields of a record that belong to the call, not to the compiled frame."""


def write(frame: model.CompiledFrame) -> dict[str, Any]:
    """A page as JSON."""
    plain = codec.frame_to_plain(frame)
    return {name: value for name, value in plain.items() if name not in OF_ONE_PROCESS} | {"cause": model.LOADED}


def read(fields: dict[str, Any]) -> model.CompiledFrame:
    """The page again.

    Raises:
        codec.RecordFormatError: another version wrote it.
    """
    return codec.frame_from_plain(fields)


def rewrite(
    draft: FrameDraft,
    content: dict[str, Any],
    failed: tuple[model.FailedGuard, ...],
    called_from: str,
    resumes: str,
) -> None:
    """Fill this process's page from the one that is kept."""
    # Ids in the page begin with the compile id of the process that wrote it (0/1.n3): here they are under this one's.
    kept = read(_renamed(content, str(content["id"]), draft.compile_id))
    entries = {each.name: getattr(kept, each.name) for each in fields(kept) if each.name != "compiled_graph"}
    draft.write(**{**entries, "failed_guards": failed, "called_from": called_from, "resumes": resumes})
    if kept.compiled_graph is not None:
        draft.write_graph(
            **{each.name: getattr(kept.compiled_graph, each.name) for each in fields(kept.compiled_graph)}
        )


def _renamed(content: Any, before: str, after: str) -> Any:
    """A page's content with every id under another compile id."""
    if isinstance(content, dict):
        return {name: _renamed(value, before, after) for name, value in content.items()}
    if isinstance(content, list):
        return [_renamed(each, before, after) for each in content]
    # The dot matters: ``0/1`` is no prefix of ``0/10.n3``.
    if isinstance(content, str) and (content == before or content.startswith(f"{before}.")):
        return after + content.removeprefix(before)
    return content
