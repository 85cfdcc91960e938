"""Pipelined execution: all layers live on the wafer at once, each on its own region, and samples flow through.

The formula is in docs/wafer_model.md. Cores are given to a kernel until its transmission ceiling and then no more; only a full
fabric forces the kernels to share.
Sources: the execution-mode pages of the R1.x documentation; the compile reports named in docs/wafer_model.md.
"""

from __future__ import annotations

import math

from wafer_model.constants import Constants
from wafer_model.errors import DoesNotFitError
from wafer_model.network import FLOAT_BYTES, Layer, Network
from wafer_model.prediction import Execution, KernelRow, limits_of
from wafer_model.systems import System

# Bytes per parameter that stay on the wafer beside a weight and its gradient: the state of Adam in 32 bits.
OPTIMIZER_BYTES = 12
# "Models below about 1 B parameters", says the documentation of this mode.
DOCUMENTED_PARAMETER_LIMIT = 1e9


def execution(network: Network, system: System, constants: Constants, batch_size: int) -> tuple[float, float, Execution]:
    """Return samples per second, the samples per second of the wires, and the placement that accepts the most.

    Raises:
        DoesNotFitError: memory, parameters, or fewer cores than kernels.
    """
    memory = memory_bytes(network)
    if memory > system.sram_bytes or network.parameters >= DOCUMENTED_PARAMETER_LIMIT:
        raise DoesNotFitError(
            f"{network.name} cannot run pipelined on {system.name}: {network.parameters / 1e6:,.0f} M parameters need "
            f"{memory / 1e9:,.1f} GB of {system.sram_bytes / 1e9:,.0f} GB, and the mode is for less "
            f"than 1,000 M parameters; use weight streaming"
        )
    kernels = tuple(layer for layer in network.layers if layer.forward_flops > 0)
    core_rate = system.peak_flops_per_s / system.cores * constants.efficiency_on(system.name)
    fabric = int(system.usable_cores * constants.usable_share)
    if fabric < len(kernels):
        raise DoesNotFitError(f"{network.name} has {len(kernels)} kernels and {system.name} only {fabric} cores")
    ceiling = min(_transmission(layer, constants) for layer in kernels)
    # Weight updates and small messages do not shrink with the rate, so every kernel has at least one core.
    cores = _allocate(kernels, core_rate, ceiling, fabric)
    rows = tuple(_row(layer, count, core_rate, constants) for layer, count in zip(kernels, cores, strict=True))
    slowest = min(rows, key=lambda row: row.samples_per_s)
    compute = min(row.compute_samples_per_s for row in rows)
    accepted, ingress = slowest.samples_per_s, system.io_bytes_per_s / network.sample_bytes
    steady, stages = min(accepted, ingress), len(network.weighted_blocks)
    # Weights change at the end of every batch, so the pipeline fills again: a batch of B takes (B + fill) / rate.
    fill = stages - 1
    return (
        steady * batch_size / (batch_size + fill),
        ingress,
        Execution(
            limited_by="ingress" if ingress < accepted else slowest.limited_by,
            limiting_row=slowest.name,
            limits=limits_of(compute=compute, transmission=ceiling, ingress=ingress),
            rows=rows,
            active_core_ratio=sum(cores) / system.usable_cores,
            fill_steps=stages,
            fill_s=fill / steady,
            micro_batch_size=batch_size,
            memory_bytes=memory,
        ),
    )


def memory_bytes(network: Network) -> float:
    """Return the bytes of weights, gradients and optimizer state, and the activations of the samples in flight.

    A stage i of K keeps what it computed until the same sample comes back: 2 (K - 1 - i) + 1 samples, as in any pipeline with one
    forward and one backward per tick. (Derived; the documentation gives no number.)
    """
    resident = network.parameters * (2 * FLOAT_BYTES + OPTIMIZER_BYTES)
    blocks = network.blocks
    last = len(blocks) - 1
    in_flight = sum(block.working_elements * (2 * (last - index) + 1) for index, block in enumerate(blocks))
    return float(resident + in_flight * FLOAT_BYTES)


def _transmission(layer: Layer, constants: Constants) -> float:
    """Return the samples/s that the ports of a kernel carry, whatever its size.

    Read off the one public report whose network is known (GPT-2 small at 1,024 tokens): attention, feed-forward and norm kernels
    all carry 1.6 to 2.2e9 elements of the token width per second, and the four times wider side between two feed-forward kernels
    costs nothing more, so it runs over ports side by side. Images: one pixel at a time, channels side by side, which agrees with
    the 14,724 samples/s of a public U-Net report. (Both readings are ours.)
    """
    return constants.port_elements_per_s / max(layer.port_elements, 1)


def _allocate(kernels: tuple[Layer, ...], core_rate: float, ceiling: float, fabric: int) -> tuple[int, ...]:
    """Return the fewest cores with which every kernel reaches the ceiling; on a full fabric those of the best common rate."""

    def needed(rate: float) -> list[int]:
        return [max(1, math.ceil(rate * layer.training_flops / core_rate)) for layer in kernels]

    if sum(needed(ceiling)) <= fabric:
        return tuple(needed(ceiling))
    low, high = 0.0, ceiling
    while (middle := (low + high) / 2) not in (low, high):  # to the last bit of a float
        low, high = (middle, high) if sum(needed(middle)) <= fabric else (low, middle)
    return tuple(needed(low))


def _row(layer: Layer, cores: int, core_rate: float, constants: Constants) -> KernelRow:
    compute = cores * core_rate / layer.training_flops
    transmission = _transmission(layer, constants)
    return KernelRow(
        name=layer.name,
        samples_per_s=min(compute, transmission),
        compute_samples_per_s=compute,
        transmission_samples_per_s=transmission,
        cores=cores,
        limited_by="compute" if compute < transmission else "transmission",
    )
