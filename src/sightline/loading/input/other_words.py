"""What frameworks and papers call keys and dtypes of scenarios: a refusal then names ours."""

from collections.abc import Mapping

from sightline.errors import nearest

_OTHERS: Mapping[str, str] = {
    "tensor_parallel": "tp tp_size",
    "pipeline_parallel": "pp pp_size",
    "data_parallel": "dp dp_size",
    "context_parallel": "cp cp_size",
    "expert_parallel": "ep ep_size",
    "expert_tensor_parallel": "etp",
    "sequence_parallel": "sp",
    "virtual_stages": "vpp vp",
    "micro_batch": "mbs",
    "global_batch": "gbs batch_size",
    "sequence_length": "seq_len seqlen seq_length max_seq_len",
    "prompt_tokens": "input_tokens isl",
    "output_tokens": "osl",
    "recompute": "activation_checkpointing gradient_checkpointing",
    "zero_stage": "zero",
    "vocab_size": "vocab vocabulary vocabulary_size",
    "per_node": "gpus_per_node",
    "devices": "gpus nodes",
}
_DTYPES: Mapping[str, str] = {
    "fp32": "float32 float",
    "fp16": "float16 half",
    "bf16": "bfloat16",
    "fp8": "float8 e4m3",
    "nvfp4": "fp4",
}
_OURS: Mapping[str, str] = {
    other: ours for ours, others in {**_OTHERS, **_DTYPES}.items() for other in others.split()
} | {"precision": "dtype"}


def meant(word: object, known: list[str]) -> str:
    """Return `` - did you mean 'x'?`` for the known spelling that a word stands for or is nearest to, or nothing."""
    ours = _OURS.get(word.lower(), "") if isinstance(word, str) else ""
    return f" - did you mean '{ours}'?" if ours in known else nearest(word, known)
