"""What the prior costs: beside a plain training step, for many tasks, and at low rank.

    PYTHONPATH=src python -W ignore benchmarks/prior_cost.py --device cuda --features surf_l10_800.npz
    PYTHONPATH=src python -W ignore benchmarks/prior_cost.py --quick --only parts,tasks

prints the tables of `prior_<hardware>_<date>.md`. Sections:

    step        steps of AlexNet and VGG-16 with the prior, beside plain steps
    heads       the same for task-specific layers on cached features
    parts       one application, update and gradient, beside reading and writing the weights
    tasks       layers and prior with ten to ten thousand tasks
    complexity  how the updates grow with the modes and the rank
    copies      many heads trained at once, beside one after the other
    rank        low rank against full rank on real features (--features)
"""

import argparse
import os
import platform
import sys
import time
from functools import partial
from pathlib import Path

import prior_cost_copies
import prior_cost_parts
import prior_cost_rank
import prior_cost_steps
import prior_cost_tasks
import torch
from prior_cost_timing import FAILED, Setup, going_on, use_tf32

SECTION_NAMES = ("step", "heads", "parts", "tasks", "complexity", "copies", "rank")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", default=",".join(SECTION_NAMES), metavar="SECTION,...")
    parser.add_argument("--networks", default="alexnet,vgg16", help="of the section step")
    parser.add_argument("--features", type=Path, default=None, metavar="FILE.npz")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",")
    unknown = sorted(set(arguments.only) - set(SECTION_NAMES))
    if unknown:
        parser.error(
            f"--only must name sections ({', '.join(SECTION_NAMES)}): got {', '.join(unknown)}"
        )
    return arguments


def describe(setup: Setup, n_threads: int) -> str:
    """The machine, the versions and the precision in one line."""
    name = torch.cuda.get_device_name() if setup.is_cuda else f"{n_threads} CPU threads"
    cuda = f" (CUDA {torch.version.cuda})" if setup.is_cuda else ""
    precision = (
        "float32 weights, TF32 on, bf16 by autocast where stated" if setup.is_cuda else "float32"
    )
    size = "; QUICK: sizes are too small for the goals" if setup.quick else ""
    return f"{name}; torch {torch.__version__}{cuda}; Python {platform.python_version()}; {precision}{size}"


def main() -> None:
    """Print the tables of all chosen sections, and go on where one fails."""
    arguments = read_arguments()
    networks = tuple(arguments.networks.split(","))
    setup = Setup(device=arguments.device, quick=arguments.quick, networks=networks)
    torch.set_num_threads(arguments.threads)
    torch.backends.cudnn.benchmark = True
    print(describe(setup, arguments.threads), flush=True)
    sections = {
        **prior_cost_steps.SECTIONS,
        **prior_cost_parts.SECTIONS,
        **prior_cost_tasks.SECTIONS,
        **prior_cost_copies.SECTIONS,
        "rank": partial(prior_cost_rank.print_ranks, features=arguments.features),
    }
    for name in arguments.only:
        print(f"\n## {name}", flush=True)
        begin = time.perf_counter()
        use_tf32(True)
        with going_on(f"Section {name}"):
            sections[name](setup)
        if setup.is_cuda:
            torch.cuda.empty_cache()
        print(f"\n({name}: {time.perf_counter() - begin:.0f} s)", flush=True)
    if FAILED:
        sys.exit(f"Failed: {', '.join(FAILED)}")


if __name__ == "__main__":
    main()
