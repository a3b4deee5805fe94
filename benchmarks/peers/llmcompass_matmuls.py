"""Simulate LLMCompass's measured A100 matmuls with LLMCompass itself, and compare with what was measured.

    git clone https://github.com/PrincetonUniversity/LLMCompass && git -C LLMCompass checkout 2e015fd
    python -m venv llmcompass-env && llmcompass-env/bin/pip install scalesim torch
    python benchmarks/peers/llmcompass_cases.py LLMCompass > cases.json
    cd LLMCompass && PYTHONPATH=.:../benchmarks/peers ../llmcompass-env/bin/python ../benchmarks/peers/llmcompass_matmuls.py ../cases.json [EVERY]

As its ae/figure5/ab does: the device A100_80GB_fp16, its heuristic search of tiles, and 21 us for the launch. It runs in its
own folder, where its tables of systolic arrays lie. One case in EVERY is simulated, since each takes long.
"""

import contextlib
import io
import sys
from typing import Any

from comparison import Compared, cases_of, report
from hardware_model.device import device_dict
from software_model.matmul import Matmul
from software_model.utils import Tensor, data_type_dict

LAUNCH_S = 2.1e-5


def main(cases: str, every: str = "1") -> None:
    """Simulate every case and print both errors."""
    found = [
        Compared.timed(case, matmul_seconds, case["scenario"]["workload"]) for case in cases_of(cases)[:: int(every)]
    ]
    report("LLMCompass", cases, found)


def matmul_seconds(sizes: dict[str, Any]) -> float:
    """Return LLMCompass's seconds of a product, launch included."""
    product = Matmul(data_type=data_type_dict["fp16"])
    with contextlib.redirect_stdout(io.StringIO()):
        product(Tensor([sizes["m"], sizes["k"]]), Tensor([sizes["k"], sizes["n"]]))
        simulated = product.compile_and_simulate(device_dict["A100_80GB_fp16"], compile_mode="heuristic-GPU")
    return float(simulated) + LAUNCH_S


if __name__ == "__main__":
    main(*sys.argv[1:])
