"""Cases that end in every way there is; run in processes of their own by the tests beside."""

import ctypes
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from sightline.measurement.processes.isolation import UnsupportedCaseError


def returns(arguments, emit):
    for number in range(arguments.get("samples", 0)):
        emit({"number": number, "time_s": number / 8})
    sys.stdout.write("printed by the case\n")
    return {"double": 2 * arguments["x"], "rows": arguments.get("rows", [])}


def raises(_arguments, _emit):
    raise ValueError("the first line\nthe second line")


def is_unsupported(_arguments, _emit):
    raise UnsupportedCaseError("nf4 needs bitsandbytes")


def asks_for_too_much(_arguments, _emit):
    return {"length": len(bytearray(1 << 62))}


def dies_in_native_code(_arguments, emit):
    emit({"reached": True})
    ctypes.string_at(0)


def leaves(_arguments, _emit):
    os._exit(3)


def kills_itself_in_the_middle_of_a_line(_arguments, _emit):
    os.write(int(sys.argv[1]), b'{"sample": {"cut')
    os.kill(os.getpid(), 9)


def starts_daemons_and_hangs(arguments, emit):
    """A process in a session of its own, an orphan of a shell, and a child of the group."""
    start_daemons(arguments["mark"])
    emit({"pid": os.getpid()})
    time.sleep(1000)


def starts_daemons_and_returns(arguments, _emit):
    start_daemons(arguments["mark"])
    return {}


def start_daemons(mark):
    sleep = [sys.executable, "-c", "import time; time.sleep(1000)", mark]
    subprocess.Popen(sleep, start_new_session=True)
    subprocess.Popen(sleep)
    subprocess.run([sys.executable, "-c", f"import subprocess; subprocess.Popen({sleep!r})"], check=True)


def counts_its_starts(arguments, emit):
    """Works for a moment, with a child; says in a file of its own that it was started."""
    with Path(arguments["log"]).open("a") as log:
        log.write(f"{arguments['number']}\n")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", arguments["mark"]])
    for turn in range(3):
        emit({"turn": turn})
        time.sleep(arguments["turn_s"])
    child.kill()
    child.wait()
    return {"number": arguments["number"], "rows": [{"operator": "matmul", "time_s": 1e-3}]}


def says_its_surroundings(arguments, _emit):
    import tempfile

    return {
        "variable": os.environ.get(arguments["variable"]),
        "scratch": tempfile.gettempdir(),
        "stdin": sys.stdin.read(),
        "leader": os.getsid(0) == os.getpid(),
    }


def raises_ctrl_c(_arguments, _emit):
    raise KeyboardInterrupt


def trains_on_two_ranks_of_which_one_is_late(arguments, emit):
    """Two real replicas on a clock that the second one alone moves on, by 1 before each of its passes."""
    import tempfile

    from sightline.measurement.models import preload
    from sightline.measurement.processes.ranks import Ranks, run_ranks

    preload()
    ranks = Ranks(here=2, threads=1, variables={"SIGHTLINE_DEVICE": "cpu"})
    with tempfile.TemporaryDirectory() as folder:
        clock = Path(folder) / "clock"
        clock.write_bytes(bytes(16))
        asked = {**arguments, "rendezvous": {"file": f"{folder}/ranks"}, "clock": str(clock)}
        return dict(run_ranks(f"{__name__}:is_one_of_two", asked, ranks, emit)[0])


def is_one_of_two(arguments, emit):
    """The second rank is late for certain: it begins no step before the first one has come to the end of its own."""
    import mmap

    from torch.nn.modules.module import register_module_forward_pre_hook

    from sightline.measurement.modules.timeline import HostReader
    from sightline.measurement.modules.wrapping import EXPOSED
    from sightline.measurement.training.runs import StepClock, measure_rank

    with Path(arguments["clock"]).open("r+b") as file:
        shared = memoryview(mmap.mmap(file.fileno(), 16)).cast("q")
    now, passes_of_the_first = 0, 1
    passes = 0
    HostReader.read = staticmethod(lambda: float(shared[now]))

    def be_late(module, _):
        nonlocal passes
        if module.__class__.__name__.endswith("ForCausalLM"):
            passes += 1
            while shared[passes_of_the_first] < -(-passes // arguments["passes"]) * arguments["passes"]:
                time.sleep(0.001)
            shared[now] += 1

    phase = StepClock.phase

    @contextmanager
    def begin_to_wait(clock, name):
        with phase(clock, name):
            shared[passes_of_the_first] += name == EXPOSED
            yield

    if os.environ["RANK"] == "1":
        register_module_forward_pre_hook(be_late)
    else:
        StepClock.phase = begin_to_wait
    return measure_rank({k: v for k, v in arguments.items() if k not in ("passes", "clock")}, emit)
