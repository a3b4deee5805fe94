"""A replica of an engine: a model under a plan on its ranks, whatever batches it works on."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from sightline.content import LargeArrayError, Results, content, remembered
from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.collectives.groups import Group, data_group, tensor_group
from sightline.cost.device_model import Kernels, device_model
from sightline.cost.ranks import Ranks
from sightline.frameworks import Engine
from sightline.prediction.generation.passes import PricedPass, price_passes
from sightline.program import Batch, InferenceKernels, inference_kernels, write
from sightline.program.formats import HALF_SUMS, Formats, formats_of, plain_dtype
from sightline.scenario import Cluster, Device, GenerationPlan, GenerationScenario, Model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Worker:
    """A replica of an engine; of its scenario's workload only whether all tokens are the same counts."""

    scenario: GenerationScenario
    formats: Formats
    ranks: Ranks

    @property
    def plan(self) -> GenerationPlan:
        """How the engine runs the model."""
        return self.scenario.plan

    @property
    def model(self) -> Model:
        """What it runs."""
        return self.scenario.model

    def priced(self, batches: Sequence[Batch]) -> list[PricedPass]:
        """Write a pass of each batch out and price the operators of all together."""
        kernels = [inference_kernels(self.scenario, self.formats, batch) for batch in batches]
        keys = [_key(x, self.ranks) for x in kernels]
        found = [None if key is None else _PASSES.get(key) for key in keys]
        unknown = iter(_priced([x for x, one in zip(kernels, found, strict=True) if one is None], self.ranks))
        passes = [one or next(unknown) for one in found]
        for key, one in zip(keys, passes, strict=True):
            if key is not None:
                _PASSES.put(key, one)
        return passes


_PASSES: Results[PricedPass] = Results(entries=512, kind="blocks")


def _key(kernels: InferenceKernels, ranks: Ranks) -> Hashable:
    """What a priced pass depends on; None for meshes."""
    try:
        return content((kernels, ranks.cluster), largest_array=0)
    except LargeArrayError:
        return None


def _priced(kernels: Sequence[InferenceKernels], ranks: Ranks) -> list[PricedPass]:
    """Passes written out and priced together."""
    programs = [write(x) for x in kernels]
    prices = price_passes(programs, ranks)
    return [
        PricedPass(kernels=x, program=of, prices={id(op): prices[id(op)] for op in of.operators})
        for x, of in zip(kernels, programs, strict=True)
    ]


def worker_of(scenario: GenerationScenario) -> Worker:
    """Return the replica that answers a scenario."""
    plan, engine, cluster = scenario.plan, scenario.plan.engine, scenario.cluster
    kernels = Kernels(
        stream_generation=engine.kernels.stream_kernels,
        eager=engine.kernels.eager,
        dtype=plain_dtype(plan.dtype, cluster.device),
    )
    return Worker(
        scenario=scenario,
        formats=_formats(scenario.model, plan.quantization, plan.dtype, engine, cluster.device),
        ranks=Ranks(
            device_model=device_model(cluster.device, kernels),
            cluster=cluster,
            group=partial(_group, plan=plan, cluster=cluster),
            library=cluster_collectives(
                cluster,
                all_reduce=engine.all_reduce_library,
                whole_domain=engine.collectives.reduces_over_domain,
                block_bandwidth=engine.collectives.block_bandwidth,
            ),
        ),
    )


@remembered(entries=256)
def _formats(model: Model, quantization: tuple[str, ...] | None, dtype: str, engine: Engine, device: Device) -> Formats:
    in_fp16 = engine.llama_cpp.sums_in_fp16 and dtype == "fp16" and HALF_SUMS in device.peak_flops
    dtype = HALF_SUMS if in_fp16 else dtype
    formats = formats_of(model, quantization, dtype, device, whole_model=engine.kernels.quantizes_head)
    return formats.with_weight_bytes(engine.kernels.weight_bytes)


def _group(ranks: str, plan: GenerationPlan, cluster: Cluster) -> Group:
    """The ranks that take part in a collective of a pass."""
    if ranks == "tensor":
        return tensor_group(plan.tensor_parallel, cluster)
    return data_group(plan.tensor_parallel, plan.data_parallel, cluster)
