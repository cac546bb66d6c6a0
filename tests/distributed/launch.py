"""Programs of this folder on two ranks, in one pair of processes: `torchrun --nproc-per-node 2 launch.py FOLDER NAME ...`.

Most of what a pair costs is importing torch and its compiler three times. Each program begins with nothing compiled, and writes
a file of results for each rank.
"""

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent


def launched(folder, *names, **variables):
    """Run programs with torchrun, and return the results of each rank by program."""
    # --standalone: torchrun's own store binds a free port. A port that is chosen before may be taken by then.
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, __file__, str(folder), *names]
    ran = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return {name: [json.loads((folder / f"{name}{rank}.json").read_text()) for rank in range(2)] for name in names}


def main(folder, *names):
    import torch
    import torch._dynamo
    import torch.distributed as dist

    import nbcompile

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for name in names:
        specification = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        program = importlib.util.module_from_spec(specification)
        sys.modules[name] = program
        specification.loader.exec_module(program)
        nbcompile.reset()
        torch._dynamo.reset()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = program.observed()
        Path(folder, f"{name}{dist.get_rank()}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
