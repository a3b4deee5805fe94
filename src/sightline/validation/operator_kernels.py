"""Suites of measured bandwidth-bound kernels (norm, rotation, activation, embedding, ...) by device family."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sightline.calibration.elementwise import predicted_seconds
from sightline.calibration.elementwise_entries import LLAMA_8B
from sightline.calibration.elementwise_tables import (
    Tables,
    joined,
    read_llmcompass,
    read_llmservingsim_dense,
    read_vidur_elementwise,
)
from sightline.calibration.entries import device_of
from sightline.catalog import entry, names
from sightline.cost.elementwise import ElementwiseConstants, KernelGeneration, load_elementwise
from sightline.validation.operator_suite import Compared, OperatorSuite
from sightline.validation.suite import Split

DECISIONS = (
    "Every tensor counts once per read or write at 16 bits.",
    "All of them are fitted on, class by class. The catalog's entry holds the errors of leaving whole widths out.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Where a family's kernels were measured."""

    family: str
    generation: KernelGeneration
    files: Sequence[str]
    read: Callable[[Path], Tables]
    source: str


_VIDUR = "microsoft/vidur@7d47513, vLLM's kernels of 2023"
PROFILES = (
    *(
        Profile(
            family=family,
            generation="scalar",
            files=[f"vidur/{name}_Llama-2-7b-hf_mlp.csv", f"vidur/{name}_Llama-2-70b-hf_mlp.csv"],
            read=read_vidur_elementwise,
            source=_VIDUR,
        )
        for family, name in (("a100-sxm", "a100"), ("h100-sxm", "h100"), ("a40", "a40"))
    ),
    Profile(
        family="a800-sxm",
        generation="scalar",
        files=["frontier/a800_meta-llama_Llama-2-7b-hf_mlp.csv"],
        read=read_vidur_elementwise,
        source="NetX-lab/Frontier@a4b22df, vLLM's kernels of 2023",
    ),
    Profile(
        family="rtx-4090",
        generation="vectorized",
        files=["llmservingsim/perf_RTX4090_meta-llama_Llama-3.1-8B_bf16_tp1_dense.csv"],
        read=lambda path: read_llmservingsim_dense(path, LLAMA_8B),
        source="casys-kaist/LLMServingSim, vLLM 0.19",
    ),
    Profile(
        family="mi210",
        generation="vectorized",
        files=["llmcompass_measured_ops.csv"],
        read=lambda path: read_llmcompass(path, "MI210"),
        source="PrincetonUniversity/LLMCompass@2e015fd, PyTorch's kernels",
    ),
)


def elementwise_suites(data: Path) -> Iterator[OperatorSuite]:
    """Yield the suites whose tables are in the data folder and whose constants are in the catalog."""
    for profile in PROFILES:
        fitted = f"{profile.family}/elementwise"
        if fitted not in names("calibrations") or profile.generation not in entry("calibrations", fitted)["kernels"]:
            continue
        if all((data / file).is_file() for file in profile.files):
            yield OperatorSuite(
                name=f"element-wise {profile.family}",
                source=profile.source,
                decisions=DECISIONS,
                compare=partial(_compare, data, profile),
            )


def _compare(data: Path, profile: Profile) -> Mapping[Split, Compared]:
    return {"fit": kernels_compared(data, profile, load_elementwise(profile.family, profile.generation))}


def kernels_compared(data: Path, profile: Profile, constants: Mapping[str, ElementwiseConstants]) -> Compared:
    """Return predicted and measured seconds of a profile's kernels, of the classes that ``constants`` know."""
    tables = joined(profile.read(data / file) for file in profile.files)
    device = device_of(profile.family)
    known = {kind: table for kind, table in tables.items() if kind in constants}
    predicted = [predicted_seconds(table, device, constants[kind]) for kind, table in known.items()]
    return Compared(
        predicted=np.concatenate(predicted),
        measured=np.concatenate([table.seconds for table in known.values()]),
        sizes={
            "bytes": np.concatenate([table.traffic_bytes for table in known.values()]),
            "width": np.concatenate([table.width for table in known.values()]),
        },
    )
