"""Run all parts on the GPU that is here, each in a process of its own, and write what they found.

    python -m benchmarks.gpu                     what `make gpu` runs: at most 8 minutes
    python -m benchmarks.gpu --standin           the same on the stand-in driver, without a GPU
    python -m benchmarks.gpu kernels --again     one part, though it was done

A part that is done is not done again, until what it depends on changes: the GPU, the versions, nbcompile's own files.
Rows are kept one by one (build/gpu/PART.jsonl): where a part's time is up before its end, the next part begins, and the
next run of the command goes on with the programs that are left.

Read next: benchmarks/gpu/parts.py
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import machine, parts, report
from benchmarks.gpu.launching import library_folder
from nbcompile.gpu.standin.driver import StandInDriver
from nbcompile.runtime import toolchain

ROOT = Path(__file__).parents[2]
BUDGET = 480
SHARES = {
    "doctor": 40, "launches": 60, "checks": 110, "calibration": 15, "kernels": 130, "models": 80, "predictions": 45,
}  # fmt: skip
"""Seconds of each part, of the budget."""
CUT_OFF = 75
"""Exit code of a part whose time was up before its end."""


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 if no part failed and nothing differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(SHARES)}; all of them if none is named")
    parser.add_argument("--standin", action="store_true", help="on the stand-in driver: no GPU is needed")
    parser.add_argument("--again", action="store_true", help="do again what is done")
    parser.add_argument("--seconds", type=float, default=BUDGET, help=f"for all parts together ({BUDGET})")
    parser.add_argument("--one", choices=SHARES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if unknown := given.parts and set(given.parts) - set(SHARES):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: {', '.join(SHARES)}")
    folder = ROOT / "build" / ("gpu-standin" if given.standin else "gpu")
    folder.mkdir(parents=True, exist_ok=True)
    if given.one:
        return run_here(given.one, given.standin, given.seconds, folder)
    return run_all(given.parts or tuple(SHARES), given.standin, given.again, given.seconds, folder)


def run_here(name: str, standin: bool, seconds: float, folder: Path) -> int:
    """Run one part in this process; rows are written as they come, after those of a run that was cut off."""
    kept = rows_of_last_run(folder / f"{name}.json")
    done = {(row.get("name", ""), bool(row.get("trains"))) for row in kept}
    with machine.opened(standin) as gpu, (folder / f"{name}.jsonl").open("w") as out:
        out.writelines(json.dumps(row) + "\n" for row in kept)
        try:
            for row in parts.PARTS[name](gpu, time.monotonic() + seconds, done):
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(f"  {name}: {row.get('name', '')}", flush=True)
                if parts.what_is_left(row):
                    return CUT_OFF
        except parts.TimeIsUp:
            return CUT_OFF
    return 0


def rows_of_last_run(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a part that was cut off, if it was with this GPU, these versions and files."""
    if not path.exists():
        return []
    last = json.loads(path.read_text())
    if not last.get("cut_off") or last["key"] != key_of_all():
        return []
    return [row for row in last["rows"] if not parts.what_is_left(row)]


def run_all(names: Any, standin: bool, again: bool, seconds: float, folder: Path) -> int:
    """Run each part that is not done, within its share of the time; then write the page."""
    began, key = time.monotonic(), key_of_all()
    for name, share_of_all in SHARES.items():
        done = folder / f"{name}.json"
        if name not in names or (not again and is_done(done, key)):
            continue
        if again:
            done.unlink(missing_ok=True)
        left = began + seconds - time.monotonic()
        if left < 5:
            print(f"{name}: the time is up; run the command again to go on")
            continue
        share = min(share_of_all * seconds / BUDGET, left)
        print(f"{name} (at most {share:.0f} s)", flush=True)
        started = time.monotonic()
        error, cut_off = _run_part(name, standin, share)
        if cut_off:
            print(f"{name}: its time is up; run the command again to go on")
        written = folder / f"{name}.jsonl"
        rows = [json.loads(line) for line in written.read_text().splitlines()] if written.exists() else []
        done.write_text(
            json.dumps(
                {
                    "key": key,
                    "rows": rows,
                    "error": error,
                    "cut_off": cut_off,
                    "seconds": time.monotonic() - started,
                }
            )
        )
    found = parts_of_key(folder, key)
    command = "make gpu STANDIN=1" if standin else "make gpu"
    (folder / "gpu.json").write_text(json.dumps({"date": datetime.now(UTC).isoformat(), "parts": found}, indent=1))
    target = folder / "page.md" if standin else ROOT / "docs" / "measured_on_gpu.md"
    target.write_text(report.page(found, command))
    print(f"{folder / 'gpu.json'}\n{target}")
    wrong = [
        row["name"]
        for part in found.values()
        for row in part["rows"]
        if row.get("equal") is False or row.get("bits") is False
    ]
    failed = [f"{name}: {part['error']}" for name, part in found.items() if part["error"]]
    for line in (*(f"not equal: {name}" for name in wrong), *failed):
        print(line)
    return 1 if wrong or failed else 0


def parts_of_key(folder: Path, key: str) -> dict[str, Any]:
    """What the parts found; those of another GPU, of other versions or of other files are left out."""
    found = {name: json.loads(path.read_text()) for name in SHARES if (path := folder / f"{name}.json").exists()}
    return {name: part for name, part in found.items() if part["key"] == key}


def is_done(path: Path, key: str) -> bool:
    """Return whether a part came to its end without an error, with what it depends on as it is now."""
    if not path.exists():
        return False
    last = json.loads(path.read_text())
    return last["key"] == key and not last.get("cut_off") and not last["error"]


def _run_part(name: str, standin: bool, seconds: float) -> tuple[str, bool]:
    """The error of a part, or "", and whether its time was up. One that does not end in time is stopped."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "--one",
        name,
        "--seconds",
        str(seconds),
        *(["--standin"] * standin),
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=_environment(standin), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        _, text = process.communicate(timeout=seconds + 60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"stopped after {seconds + 60:.0f} s", False
    if process.returncode in (0, CUT_OFF):
        return "", process.returncode == CUT_OFF
    raised = re.findall(r"^[\w.]*(?:Error|Exception|Interrupt)\b.*", text, re.MULTILINE)
    return raised[-1] if raised else f"exit code {process.returncode}", False


def _environment(standin: bool) -> dict[str, str]:
    """Of a part: Triton's own launcher is linked to libcuda.so.1, which the system's loader has to find."""
    if not standin:
        return dict(os.environ)
    folders = [str(library_folder(StandInDriver.build(toolchain.find()).path)), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, folders))}


def key_of_all() -> str:
    """What results depend on: versions, and the files of nbcompile and of this package."""
    found = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for path in sorted((*(ROOT / "nbcompile").rglob("*"), *(ROOT / "benchmarks" / "gpu").glob("*.py"))):
        if path.suffix in (".py", ".c", ".cpp", ".h") and path.is_file():
            found.update(path.read_bytes())
    if torch.cuda.is_available():
        found.update(torch.cuda.get_device_name().encode())
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
