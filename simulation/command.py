"""The command line: one seed, or many, each in a process of its own."""

import argparse
import gc
import logging
import os
import pickle
import sys
import time
import traceback
from collections import Counter

from simulation.mutants import MUTANTS
from simulation.plan import Plan, Shape, make_plan
from simulation.run import Outcome, run
from simulation.shrinking import shrunk


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of what a seed decides.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])
    options = _options()
    seeds = range(options.seed, options.seed + options.seeds)
    began = time.perf_counter()
    failures, simulated_s, done = 0, 0.0, 0
    counts: Counter[str] = Counter()
    for seed in seeds:
        plan = make_plan(seed, options.minutes * 60, options.shape)
        outcome = run_apart(plan, mutant=options.mutant, verbose=options.verbose)
        done += 1
        if isinstance(outcome, str):
            print(f"seed {seed}: {outcome}")
            failures += 1
            continue
        simulated_s += outcome.simulated_s
        counts.update(outcome.counts)
        failures += bool(outcome.findings)
        if outcome.findings or options.seeds == 1 or options.verbose:
            _tell(outcome, options.verbose)
        if outcome.findings and not options.whole:
            _shrink(outcome, options.mutant)
        if outcome.findings and options.first:
            break
    if options.seeds > 1:
        print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    print(
        f"{done} seeds, {failures} with findings; {simulated_s:.0f} s simulated "
        f"in {time.perf_counter() - began:.0f} s"
    )
    sys.exit(1 if failures else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--minutes", type=float, default=1.0, help="simulated minutes of each")
    parser.add_argument(
        "--shape", type=Shape.__getitem__, default=None, help=", ".join(each.name for each in Shape)
    )
    parser.add_argument("--first", action="store_true", help="stop at the first finding")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="with this mistake planted")
    parser.add_argument("--whole", action="store_true", help="do not look for a shorter history")
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
        # What is dead stays where it is: collecting it would run its `finally` blocks. And the
        # process does not live long enough to run out of memory.
        gc.disable()
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


def _shrink(outcome: Outcome, mutant: str | None) -> None:
    """Tell the shortest history that breaks one of the same promises."""
    broken = {finding.partition(":")[0] for finding in outcome.findings}
    shortest = outcome

    def fails(plan: Plan) -> bool:
        nonlocal shortest
        again = run_apart(plan, mutant=mutant)
        if isinstance(again, str):
            return False
        if not broken & {finding.partition(":")[0] for finding in again.findings}:
            return False
        shortest = again
        return True

    shrunk(outcome.plan, fails)
    if shortest is not outcome:
        print(f"the shortest that breaks the same, {_less(shortest.plan)}:")
        _tell(shortest, verbose=False)


def _less(plan: Plan) -> str:
    return (
        f"{plan.seconds:.1f} s, {len(plan.faults)} faults, {plan.producers} producers, "
        f"{plan.transactors} transactors, {plan.consumers} consumers, {plan.poppers} poppers, "
        f"{plan.namesrvs} NameServers"
    )


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
        print("   ", ", ".join(f"{count} {what}" for what, count in outcome.counts.items()))
    for finding in outcome.findings[:20]:
        print("  !", finding)
