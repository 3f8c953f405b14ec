"""The command line: one seed, or many, each in a process of its own."""

import argparse
import logging
import os
import pickle
import sys
import time
import traceback

from simulation.mutants import MUTANTS
from simulation.plan import Plan, Shape, make_plan
from simulation.run import Outcome, run


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of what a seed decides.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])
    options = _options()
    seeds = range(options.seed, options.seed + options.seeds)
    began = time.perf_counter()
    failures, simulated_s = 0, 0.0
    for seed in seeds:
        plan = make_plan(seed, options.minutes * 60, options.shape)
        outcome = run_apart(plan, mutant=options.mutant, verbose=options.verbose)
        if isinstance(outcome, str):
            print(f"seed {seed}: {outcome}")
            failures += 1
            continue
        simulated_s += outcome.simulated_s
        failures += bool(outcome.findings)
        if outcome.findings or options.seeds == 1 or options.verbose:
            _tell(outcome, options.verbose)
        if outcome.findings and options.first:
            break
    print(
        f"{len(seeds)} seeds, {failures} with findings; {simulated_s:.0f} s simulated "
        f"in {time.perf_counter() - began:.0f} s"
    )
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--minutes", type=float, default=1.0, help="simulated minutes of each")
    parser.add_argument(
        "--shape", type=Shape.__getitem__, default=None, help="SYNC_FLUSH, ASYNC_FLUSH, PAIR"
    )
    parser.add_argument("--first", action="store_true", help="stop at the first finding")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="with this mistake planted")
    parser.add_argument("--verbose", action="store_true", help="show incidents and logs")
    return parser.parse_args()


def run_apart(plan: Plan, *, mutant: str | None = None, verbose: bool = False) -> Outcome | str:
    """Run a plan in a process of its own, which takes everything along that it has left."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        logging.basicConfig(
            level=logging.INFO if verbose else logging.CRITICAL, format="%(name)s %(message)s"
        )
        try:
            if mutant is not None:
                MUTANTS[mutant]()
            answer: Outcome | str = run(plan)
        except BaseException:
            answer = "the simulation failed\n" + traceback.format_exc()
        with open(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return "the process died"
    found: Outcome | str = pickle.loads(data)
    return found


def _tell(outcome: Outcome, verbose: bool) -> None:
    plan = outcome.plan
    print(
        f"seed {plan.seed} {plan.shape.name}: {outcome.sends} sends, {outcome.acknowledged} "
        f"acknowledged, {outcome.deliveries} deliveries, {len(plan.faults)} faults; "
        f"{outcome.simulated_s:.0f} s simulated in {outcome.real_s:.1f} s; {outcome.digest}"
    )
    if verbose or outcome.findings:
        for incident in outcome.history.incidents:
            print("   ", incident.text)
    for finding in outcome.findings[:20]:
        print("  !", finding)
