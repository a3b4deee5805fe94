"""Every reader on wrong inputs: each may be answered or refused in a sentence, with bounded memory and time.

    python scripts/fuzz.py [READER ...] --seconds 600     look for defects; the time is shared by the readers
    python scripts/fuzz.py --inputs 100 --seed 0          the same inputs on every machine
    python scripts/fuzz.py --again FOLDER ...             ask about kept inputs again

The same seed makes the same inputs. Without --seed, each search draws a new one and prints it. An input that ends
otherwise - in a traceback, in a process that dies, beyond the time or memory that one may take - is kept in a folder with
its files, and the exit code is 1. What a fresh process answers is unstable: it is counted and printed, not kept.

FUZZ_CPU_S: the seconds of a processor that one input may take (default 5).
"""

import argparse
import os
import secrets
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from fuzzing.campaign import Tally, search, worker
from fuzzing.inputs import ABOUT, Input
from fuzzing.readers import READERS
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

DEEPEST = 20_000
"""Levels at which this process still makes nested inputs; those that read them have Python's usual limit."""


def main() -> int:
    """Search, or ask again."""
    sys.setrecursionlimit(DEEPEST)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of {', '.join(READERS)}; none means all")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--inputs", type=int, help="so many for each reader, however long they take")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="default: a new one each time")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="readers at the same time")
    parser.add_argument("--out", type=Path, default=Path("fuzz-defects"), help="where inputs with defects are kept")
    parser.add_argument("--again", type=Path, nargs="+", metavar="FOLDER", help="kept inputs")
    asked = parser.parse_args()
    if missing := [str(folder) for folder in asked.again or () if not (folder / ABOUT).is_file()]:
        parser.error(f"no kept input in {', '.join(missing)}; needed: a folder with {ABOUT}, as --out keeps them")
    if asked.again:
        return again(asked.again)
    if unknown := [name for name in asked.readers if name not in READERS]:
        parser.error(f"no reader {', '.join(unknown)}; known: {', '.join(READERS)}")
    print(f"seed {asked.seed}", flush=True)
    return look(asked.readers or list(READERS), asked.seconds, asked.inputs, asked.seed, asked.workers, asked.out)


def look(readers: list[str], seconds: float, inputs: int | None, seed: int, workers: int, out: Path) -> int:
    """Search with each reader so many inputs, or for its share of the time, and print what was found."""
    each_s = seconds * min(workers, len(readers)) / len(readers)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress, ThreadPoolExecutor(workers) as pool:
        makers = {reader: READERS[reader]() for reader in readers}

        def searched(reader: str) -> Tally:
            task = progress.add_task(reader, total=inputs or each_s, said="")
            begun, lock = monotonic(), threading.Lock()

            def tell(tally: Tally) -> None:
                with lock:
                    done = tally.outcomes.total() if inputs else monotonic() - begun
                    progress.update(task, completed=done, said=told(tally))

            return search(reader, makers[reader], seed, each_s, inputs, out, tell)

        found = dict(zip(readers, pool.map(searched, readers), strict=True))
    for reader, tally in found.items():
        print(f"{reader:14} {told(tally)}")
    kept = [(*one, tally) for tally in found.values() for one in tally.kept.items()]
    for signature, (folder, problem), tally in kept:
        print(f"\n{folder}: {tally.defects[signature]} x {signature}\n{problem.rstrip()}")
    for reader, tally in found.items():
        for signature, count in (+tally.unstable).items():
            print(f"\n{reader}: {count} x {signature}\nnot again in a fresh process, so that it is not kept")
    return 1 if kept else 0


def told(tally: Tally) -> str:
    """How many inputs ended in each way."""
    counts = {word: tally.outcomes[word] for word in ("answered", "refused", "failed", "defect")}
    counts["unstable"] = tally.unstable.total()
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)


def again(folders: list[Path]) -> int:
    """Ask about kept inputs again, and say what comes of them."""
    defects = 0
    with worker() as asked:
        for folder in folders:
            outcome = asked.ask(Input.read(folder))
            defects += outcome.word == "defect"
            print(f"{folder}: {outcome.word}\n{outcome.problem}".rstrip())
            asked.renew()
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
