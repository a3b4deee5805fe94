"""What torchtitan alone does: parallelism native to PyTorch (DTensor, FSDP2, AsyncTP) under models of its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePyTorch:
    """Behavior of PyTorch's own parallelism and torchtitan's models; the defaults change nothing."""

    repeats_keys: bool = False
    """Keys and values are repeated for every query head before attention, which works on all of them."""
    joins_attention_in_fp32: bool = False
    """Where a sequence is cut, the keys of each rank are kernels of their own also where they are gathered; what the
    kernels return is joined in fp32, and gradients of keys and values go round in fp32
    (torch.distributed.tensor.experimental)."""
    waits_for_keys: bool = False
    """Keys and values from other ranks are waited for as soon as they are asked for: a compiled graph has the wait right
    behind the collective, where calls one by one go on with what is at hand."""
    synchronizes_after_pipeline: bool = False
    """Stages of a pipeline keep gathered parameters from their first micro-batch to the last and reduce gradients when all
    passes are over, without overlap, whatever is done elsewhere."""
    pipeline_accumulation_traffic: float = 0.0
    """Takes the place of ``accumulation_traffic`` where a pipeline's stages reduce when all passes are over: whole
    gradients are added up in fp32 until then. 0 changes nothing."""
    compiles_loss: bool = True
    """A compiler takes the loss too, not the layers alone."""
    complex_rope: bool = False
    """Rotary embeddings are written in complex numbers, for which TorchInductor has no code."""
    loss_by_autograd: bool = False
    """An unfused loss is PyTorch's, whose gradient autograd writes out, also over a sharded vocabulary."""
    separate_projections: bool = False
    """Queries, keys and values, and gate and up, are products of their own, whose input gradients are summed after."""
    chunked_products: bool = False
    """Tensor-parallel collectives that overlap all are cut by rank together with the product they overlap, which is a
    kernel for every rank's tokens (PyTorch's AsyncTP)."""
    transposes_in_backward: bool = False
    """Quantization writes one copy of an operand, of a rank's own tokens where these are gathered then; what the weight
    gradient takes is transposed from it in the backward pass (torchao)."""
    keeps_gathered_inputs: bool = False
    """With sequence parallelism a column-split projection saves its gathered input (autograd over DTensor), where others
    save their piece and gather it again for the weight gradient."""
    copies_gathered_parameters: bool = False
    """Gathered parameters are copied out of the buffer they arrive in, between kernels (FSDP2)."""
