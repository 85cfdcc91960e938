"""Weight streaming: one block at a time, its weights arriving from outside while the activations stay on the wafer.

The formula is in docs/wafer_model.md. The streaming of a block hides behind the arithmetic of the one before it; what is left of it
is the latency.
Sources: execution-mode and micro-batch pages of the 1.8 to 2.5 documentation; the sum of maxima is derived from them.
"""

from __future__ import annotations

from wafer_model.constants import Constants
from wafer_model.errors import DoesNotFitError
from wafer_model.network import FLOAT_BYTES, Block, Network
from wafer_model.prediction import Execution, KernelRow, limits_of
from wafer_model.systems import System


def micro_batching(network: Network, system: System, samples: int) -> tuple[int, int]:
    """Return (micro-batches, samples in each) of one system: the fewest that fit.

    Raises:
        DoesNotFitError: not even one sample fits.
    """
    kept = activation_bytes(network)
    size = min(samples, int(system.sram_bytes // kept))
    if size < 1:
        raise DoesNotFitError(
            f"{network.name} cannot run on {system.name}: one sample keeps {kept / 1e9:,.1f} GB of activations, the wafer has "
            f"{system.sram_bytes / 1e9:,.0f} GB"
        )
    count = -(-samples // size)
    return count, -(-samples // count)


def activation_bytes(network: Network) -> float:
    """Return bytes per sample: what enters each block, kept so that backward can run the block again, and one block at work.

    (Assumed: recomputation from block inputs. The public batch sizes agree: 1,100 and 1,168 samples of the diffusion transformer
    are just what this lets through on 40 and 44 GB when half of the memory of the working block is reused.)
    """
    blocks = network.weighted_blocks
    kept = sum(block.input_elements for block in blocks)
    working = max(max(layer.output_elements + layer.scratch_elements for layer in block.layers) for block in blocks)
    return float((kept + working) * FLOAT_BYTES)


def execution(
    network: Network, system: System, constants: Constants, batch_size: int, systems: int
) -> tuple[float, float, Execution]:
    """Return samples per second, the samples per second of the wires, and a step of the system that has the most samples.

    Raises:
        DoesNotFitError: not even one sample fits.
    """
    samples = -(-batch_size // systems)
    count, size = micro_batching(network, system, samples)
    flops_per_s = system.peak_flops_per_s * constants.efficiency_on(system.name)
    blocks = network.weighted_blocks
    rows = tuple(_row(block, samples, count, flops_per_s, system.io_bytes_per_s, constants.layer_latency_s) for block in blocks)
    boundary = blocks[0].streamed_parameters * FLOAT_BYTES / system.io_bytes_per_s + constants.layer_latency_s
    weight_bytes = sum(block.streamed_parameters for block in blocks) * FLOAT_BYTES
    ingress = (samples * network.sample_bytes + 2 * count * weight_bytes) / system.io_bytes_per_s
    step_s = max(sum(row.step_s or 0.0 for row in rows) + boundary, ingress)
    terms = {  # what each would take alone; the one that takes the most decides
        "compute": samples * network.training_flops / flops_per_s,
        "weights": 2 * count * weight_bytes / system.io_bytes_per_s,
        "latency": (2 * count * len(blocks) + 1) * constants.layer_latency_s,
    }
    rates = {name: batch_size / seconds for name, seconds in {**terms, "ingress": ingress}.items() if seconds > 0}
    return (
        batch_size / step_s,
        batch_size / ingress,
        Execution(
            limited_by="ingress" if ingress >= step_s else max(terms, key=lambda name: terms[name]),
            limiting_row=max(rows, key=lambda row: row.step_s or 0.0).name,
            limits=limits_of(**rates),
            rows=rows,
            micro_batches=count,
            micro_batch_size=size,
            memory_bytes=size * activation_bytes(network),
        ),
    )


def _row(block: Block, samples: int, count: int, flops_per_s: float, wire_bytes_per_s: float, latency_s: float) -> KernelRow:
    forward = samples * block.forward_flops / flops_per_s
    backward = samples * block.backward_flops / flops_per_s
    weights = count * block.streamed_parameters * FLOAT_BYTES / wire_bytes_per_s  # in, and as long for the gradients out
    latency = 2 * count * latency_s
    step = max(forward, weights) + max(backward, weights) + latency
    terms = {"compute": forward + backward, "weights": 2 * weights, "latency": latency}
    return KernelRow(
        name=block.name,
        samples_per_s=samples / step,
        compute_samples_per_s=samples / (forward + backward),
        transmission_samples_per_s=samples / (2 * weights) if weights > 0 else None,
        step_s=step,
        limited_by=max(terms, key=lambda name: terms[name]),
    )
