"""Every operator that torch describes, as a user compiles it: default options, the store on, one process, breaks allowed.

    python -m tests.opinfo.default                      a fresh store, and again over what the first run left in it
    python -m tests.opinfo.default angle linalg.det     two operators
    python -m tests.opinfo.default --dtype complex64    another dtype; --backend aot_eager, --compiler torch: others

Other than in harness.py nothing here is a condition of the test: graph breaks,
recompilations and what earlier operators left in the store are allowed, as they
are in use. The second run is a process of its own that loads what the first
compiled.

In torch: test/inductor/test_torchinductor_opinfo.py. Read next: tests/opinfo/harness.py
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
import warnings

from tests.opinfo import harness, results

RUNS = ("a fresh store", "the filled store")
STORE_IS_ON = {"NBCOMPILE_WARM_START": "1"}


def run(options: list[str], store: str) -> list[results.Outcome]:
    """All outcomes of one process over one store; a crash is one of them."""
    command = [sys.executable, "-m", "tests.opinfo.default", "--worker", *options]
    environment = {**os.environ, **STORE_IS_ON, "NBCOMPILE_CACHE_DIR": store}
    outcomes = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as worker:
        assert worker.stdout
        for line in worker.stdout:
            if line.startswith('{"name"'):
                outcomes.append(results.Outcome(**json.loads(line)))
    if worker.returncode:
        outcomes.append(results.Outcome("the process", "crash", 0, f"it ended with {worker.returncode}"))
    return outcomes


def main() -> None:
    """Run and report."""
    parser = harness.parser("tests.opinfo.default", samples=2)
    parser.add_argument("--store", help="a folder for the store; a temporary one otherwise")
    arguments = parser.parse_args()
    if arguments.worker:
        warnings.simplefilter("ignore")
        harness.run(arguments, harness.compiler(arguments.compiler, arguments.backend))
        return
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for which in RUNS:
            outcomes = run(sys.argv[1:], arguments.store or folder)
            counts = collections.Counter(outcome.status for outcome in outcomes)
            for outcome in outcomes:
                if outcome.status not in results.FINE:
                    print(f"{outcome.name}\t{outcome.status}\t{outcome.detail}")
                    failed = True
            samples = sum(counts.values()) - counts[results.NO_SAMPLE]
            print(f"{which}: {counts[results.PASSED]} of {samples} pass {dict(counts)}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
