"""Fit the engines' constants of the catalog to the fit splits of the published suites.

    python scripts/fit_inference.py --data DIR --out DIR [--engine NAME ...]

writes OUT/<engine>.yaml; a rerun on the same data reproduces the shipped files. The test splits are never looked at.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sightline.calibration.fits.fitting import FitResult
from sightline.calibration.inference import MeasuredGeneration, fit_inference
from sightline.catalog.versions import line_of, release_line
from sightline.loading import generation_from_mapping
from sightline.prediction.generation.latencies import price_workers
from sightline.scenario import GenerationScenario
from sightline.validation import suites
from sightline.validation.suite import Case, Suite

KERNELS = ("matmul_slowdown", "decode_attention_slowdown", "elementwise_slowdown")
PREFILL = ("prefill_attention_slowdown", "prefill_s", "prompt_token_s")
EXPERTS = ("experts_slowdown", "prefill_experts_slowdown")
HOST = ("iteration_s", "sequence_s", "kernel_gap_s")
NARROW = ("nvfp4_slowdown",)
BLOCKS = ("fp8_block_slowdown",)
DRAFTS = ("drafting_s", "drafted_sequence_s")
NETWORK = ("collective_slowdown", "meeting_s")
VECTOR = ("vector_memory_fraction", "vector_unit_bandwidth")


def _family(scenario: GenerationScenario) -> str:
    """Cases of a model, a device and degrees."""
    plan = scenario.plan
    degrees = f"{plan.tensor_parallel} x {plan.pipeline_parallel}"
    return f"{scenario.model.name} on {degrees} {scenario.cluster.device.name}"


def _sizes(scenario: GenerationScenario) -> str:
    """Cases of the same sizes, where one family has them all."""
    work = scenario.workload
    return f"{work.batch} x {work.prompt_tokens} + {work.output_tokens}"


def _served(scenario: GenerationScenario) -> str:
    """Cases of a model on a number of devices with one length of prompts, as the served runs were split."""
    cluster, work = scenario.cluster, scenario.workload
    return f"{scenario.model.name} on {cluster.devices} {cluster.device.name}, {work.prompt_tokens}"


def _pair(scenario: GenerationScenario) -> str:
    """Cases of a model on a device."""
    return f"{scenario.model.name} on {scenario.cluster.device.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One set of constants: an engine, or one of its release lines."""

    engine: str
    line: str = ""
    suites: Sequence[str]
    free: Sequence[str]
    given: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    """Release lines whose cases count; empty for all."""
    group: Callable[[GenerationScenario], str] | None = None
    """What is left out together where spreads are found, as the suites were split; None for devices or models."""
    inherits: bool = False
    """What is not free is as the engine's own set has it; few measurements cannot show more."""


FITS = (
    Fit(
        engine="vllm",
        line="0.2",
        suites=["splitwise-prefill", "splitwise-decode"],
        free=[*KERNELS, *PREFILL, *HOST, *NETWORK, "launch_s", "long_prefill_slowdown"],
        lines=["0.2"],
        group=_family,
    ),
    Fit(
        engine="vllm",
        suites=["aiconfigurator-aggregated", "aiconfigurator-disaggregated"],
        free=[*KERNELS, *BLOCKS, *NARROW, *PREFILL, *HOST, *NETWORK, *EXPERTS, "launch_s"],
        group=_served,
    ),
    # Until 0.13 the host schedules between iterations, unless told to do so beside them, as InferenceX did.
    Fit(
        engine="vllm",
        line="0.12",
        suites=["aiconfigurator-aggregated"],
        free=[*KERNELS, *BLOCKS, *PREFILL, *HOST, *NETWORK, *EXPERTS, "launch_s"],
        lines=["0.12"],
        inherits=True,
        group=_served,
    ),
    Fit(
        engine="sglang",
        suites=["aiconfigurator-aggregated", "aiconfigurator-disaggregated"],
        free=[*KERNELS, *BLOCKS, *PREFILL, *HOST, *NETWORK, *EXPERTS, *DRAFTS, "launch_s"],
        group=_served,
    ),
    # Decodes with a graph of one size: a step takes as long for few sequences as for many.
    Fit(
        engine="sglang",
        line="0.5.3",
        suites=["aiconfigurator-aggregated", "aiconfigurator-disaggregated"],
        free=HOST,
        lines=["0.5.3"],
        inherits=True,
        group=_served,
    ),
    Fit(
        engine="sglang",
        line="0.5.10",
        suites=["aiconfigurator-aggregated"],
        free=[*KERNELS, *BLOCKS, *HOST, *EXPERTS],
        lines=["0.5.10"],
        inherits=True,
        group=_served,
    ),
    # Models that no release served yet.
    Fit(
        engine="sglang",
        line="nightly-dev",
        suites=["aiconfigurator-aggregated"],
        free=[*KERNELS, *BLOCKS, *HOST, *EXPERTS],
        lines=["nightly-dev"],
        inherits=True,
        group=_served,
    ),
    Fit(
        engine="tensorrt-llm",
        suites=["aiconfigurator-aggregated", "aiconfigurator-disaggregated"],
        free=[*KERNELS, *BLOCKS, *NARROW, *PREFILL, *HOST, *NETWORK, *EXPERTS, *DRAFTS, "launch_s"],
        # Rows of 1.3 contradict each other: some decode five times slower at a quarter of the load.
        lines=["1.2"],
        group=_served,
    ),
    Fit(
        engine="tensorrt-llm",
        line="1.1",
        suites=["aiconfigurator-aggregated", "aiconfigurator-disaggregated"],
        free=[*KERNELS, *BLOCKS, *NARROW, *PREFILL, *HOST, *NETWORK, *EXPERTS, "launch_s"],
        lines=["1.1"],
        # Few of its rows draft.
        inherits=True,
        group=_served,
    ),
    Fit(
        engine="tensorrt-llm",
        line="1.0",
        suites=["aiconfigurator-aggregated"],
        free=[*KERNELS, *BLOCKS, *PREFILL, *HOST, *NETWORK, *EXPERTS, "launch_s"],
        lines=["1.0"],
        inherits=True,
        group=_served,
    ),
    Fit(
        engine="tensorrt-llm",
        line="0",
        suites=["tensorrt-llm-first-token", "tensorrt-llm-throughput", "nemo-llama-2-128-20"],
        free=[*KERNELS, *PREFILL, *HOST, *NETWORK, *EXPERTS],
        lines=["0.5", "0.6", "0.7", "0.8", "0.9"],
        group=_family,
    ),
    Fit(
        engine="fastertransformer",
        suites=["fastertransformer-gpt"],
        free=[*KERNELS, *PREFILL, *HOST, *NETWORK, "launch_s"],
        group=_family,
    ),
    Fit(
        engine="lmdeploy",
        suites=["lmdeploy-static-batch", "lmdeploy-first-token"],
        free=[*KERNELS, "prefill_s", "iteration_s", "sequence_s"],
        group=_sizes,
    ),
    Fit(
        engine="llama.cpp",
        suites=["llama.cpp-llama-3-prefill", "llama.cpp-llama-3-decode"],
        free=[*KERNELS, "prefill_s", "iteration_s", "kernel_gap_s", "handover_s", "host_copy_bandwidth", *VECTOR],
    ),
    Fit(
        engine="llama.cpp",
        line="b1671",
        suites=["llama.cpp-llama-2-prefill", "llama.cpp-llama-2-decode"],
        free=["prefill_s", "iteration_s"],
        lines=["b1671"],
        inherits=True,
    ),
    Fit(engine="mlc", suites=["mlc-llm"], free=["iteration_s", "vector_memory_fraction"]),
    Fit(
        engine="transformers",
        suites=["qwen-transformers"],
        free=["matmul_slowdown", "launch_s", *VECTOR],
    ),
    Fit(
        engine="litgpt",
        suites=["litgpt-decode"],
        free=["launch_s", "iteration_s"],
    ),
)


def cases_of(fit: Fit, known: Mapping[str, Suite]) -> Iterator[MeasuredGeneration]:
    """The fit splits' cases of the fit's engine and release lines; suites count alike whatever their size."""
    chosen = [(suite, case) for name in fit.suites if (suite := known.get(name)) for case in suite.cases]
    chosen = [(suite, case) for suite, case in chosen if case.split == "fit" and _is_of(case, fit)]
    for suite, case in chosen:
        alike = sum(other is suite for other, _ in chosen)
        scenario = generation_from_mapping(case.scenario)
        yield MeasuredGeneration(
            workers=price_workers(scenario),
            quantity=suite.quantity,
            value=case.measured,
            weight=1.0 / alike,
            group=fit.group(scenario) if fit.group else "",
            pair=_pair(scenario) if fit.group is _served else "",
            sure=case.alternative is None,
        )


def _is_of(case: Case, fit: Fit) -> bool:
    """Whether the case counts for the fit; an engine's own set leaves out the lines that are fitted apart."""
    plan = case.scenario["plan"]
    version = str(plan.get("framework_version", ""))
    apart = [f.line for f in FITS if f.engine == fit.engine and f.line]
    chosen = bool(release_line(version, fit.lines)) if fit.lines else not release_line(version, apart)
    return plan["framework"] == fit.engine and chosen


def entry_of(engine: str, known: Mapping[str, Suite]) -> dict[str, Any]:
    """The engine's catalog entry: its own set, and those of the release lines that were fitted apart."""
    entry: dict[str, Any] = {}
    lines: dict[str, Any] = {}
    for fit in sorted((f for f in FITS if f.engine == engine), key=lambda f: bool(f.line)):
        own = entry["constants"] if fit.inherits else {}
        cases = list(cases_of(fit, known))
        figures = _figures(fit, fit_inference(cases, fit.free, {**own, **fit.given}), _releases(cases))
        if fit.line:
            lines[fit.line] = figures
        else:
            entry = figures
    if not entry:
        entry = {"evidence": "extrapolated", "like": "reference"}
    written_by = "python scripts/fit_inference.py --data DIR --out DIR"
    return {"written_by": written_by, "date": "2026-11", **entry} | ({"versions": lines} if lines else {})


def _releases(cases: Sequence[MeasuredGeneration]) -> list[str]:
    """Release lines that the cases state."""
    stated = {case.workers.scenario.plan.engine.version for case in cases} - {""}
    return sorted({line_of(version) for version in stated})


def _figures(fit: Fit, result: FitResult, releases: Sequence[str]) -> dict[str, Any]:
    return {
        "evidence": "fitted",
        "releases": list(releases),
        "source": f"fit splits of {', '.join(fit.suites)}",
        "free": list(fit.free),
        "rows": dict(result.rows),
        "residuals": {name: dict(r) for name, r in result.residuals.items()},
        "constants": dict(result.constants),
    }


def main() -> None:
    """Fit every engine asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public tables")
    parser.add_argument("--out", type=Path, required=True, help="folder that receives a file per engine")
    parser.add_argument("--engine", action="append", help="only this engine; repeatable")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    known = {suite.name: suite for suite in suites(options.data)}
    for engine in dict.fromkeys(options.engine or [fit.engine for fit in FITS]):
        text = yaml.safe_dump(entry_of(engine, known), sort_keys=False, default_flow_style=None, width=120)
        (options.out / f"{engine}.yaml").write_text(text, encoding="utf-8")
        print(options.out / f"{engine}.yaml")


if __name__ == "__main__":
    main()
