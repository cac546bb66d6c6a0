"""The program of each rank in tests/distributed/test_gpus.py: `torchrun --nproc-per-node 2 gpus.py FOLDER`.

One process for each GPU of the stand-in driver; gradients are summed over gloo, through the CPU.
"""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import nbcompile
from nbcompile.gpu.standin import device


def trained(model, call, rank):
    """The parameters after some steps with the rank's own rows, and the mean of all gradients."""
    generator = torch.Generator().manual_seed(rank)
    for _ in range(4):
        x = torch.randn(4, 16, generator=generator).to("cuda")
        call(x).square().mean().backward()
        for parameter in model.parameters():
            mean = parameter.grad.cpu()
            dist.all_reduce(mean)
            with torch.no_grad():
                parameter -= 0.1 * (mean / 2).to("cuda")
            parameter.grad = None
    return [parameter.detach().cpu() for parameter in model.parameters()]


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4)).to("cuda")


def main(folder):
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    found = {}
    with device.standin(devices=2) as here:
        here.module.set_device(local)  # torch.cuda.set_device
        eager = network()
        expected = trained(eager, eager, rank)
        for mode in (None, "reduce-overhead"):
            nbcompile.reset()
            model = network()
            here.driver.clear_log()
            parameters = trained(model, nbcompile.compile(model, mode=mode), rank)
            log = here.driver.log()
            found[str(mode)] = {
                "right": all(map(torch.allclose, parameters, expected)),
                "devices": sorted({line.split(" device ")[1][0] for line in log if line.startswith("launch ")}),
                "lies on": sorted({str(parameter.device) for parameter in model.parameters()}),
                "replays": sum(line.startswith("replay") for line in log),
                "current": torch.cuda.current_device(),
                "sum": sum(float(parameter.sum()) for parameter in parameters),
            }
        nbcompile.reset()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
