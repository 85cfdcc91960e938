"""The systems: what one CS-1, CS-2 or CS-3 can do, each number with its public origin.

SI units; peaks are dense (no credit for skipped zeros); bandwidths are one direction. No FP32 peak was ever published.
"""

from __future__ import annotations

from dataclasses import dataclass

from wafer_model.names import find_name


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One box.

    Attributes:
        cores: processing elements on the wafer; `usable_cores`: those that a compiled network may occupy.
        peak_flops_per_s: dense FLOP/s of the whole wafer in 16 bits, of either format.
        peak_origin: its derivation, as none was published.
    """

    name: str
    cores: int
    usable_cores: int
    sram_bytes: float
    io_bytes_per_s: float
    peak_flops_per_s: float
    peak_origin: str


SYSTEMS = (
    System(
        name="CS-1",
        cores=400_000,  # AnandTech 16626 (WSE-1: 400,000 cores)
        # Run log of a public BERT/FC-MNIST session: "... out of 308274 cores on the fabric"; another site logs 301,600.
        usable_cores=308_274,
        sram_bytes=18.0e9,  # AnandTech 16626 (18 GB on chip)
        io_bytes_per_s=150.0e9,  # tweakers.net 160108 (12 x 100 GbE = 1.2 Tb/s)
        peak_flops_per_s=3.53e15,
        peak_origin="no peak was published: 400,000 cores at the rate of a WSE-2 core (7.5 PFLOP/s / 850,000)",
    ),
    System(
        name="CS-2",
        cores=850_000,  # ALCF user guide and AnandTech 16626 (850,000 cores)
        # Derived: public CSL programs of W x H PEs are compiled for a fabric of W+7 x H+2, and for a CS-2 that is 757 x 996.
        # So 750 x 994 are left.
        usable_cores=745_500,
        sram_bytes=40.0e9,  # ALCF user guide (40 GB, 48 KB per core)
        io_bytes_per_s=150.0e9,  # AIaccelerators-SC24-tutorial, Cerebras part (1.2 Tb/s)
        peak_flops_per_s=7.5e15,
        peak_origin="Tom's Hardware on Andromeda: 16 systems give 120 PFLOP/s dense, so 7.5 each",
    ),
    System(
        name="CS-3",
        cores=900_000,  # tweaktown 96843 (900,000 cores)
        usable_cores=883_350,  # derived as for the CS-2, with a fabric of 762 x 1172: 755 x 1170 are left
        sram_bytes=44.0e9,  # tweaktown 96843 (44 GB)
        # vengineer.hatenablog.com 2025-07-02 (1.2 Tb/s). The 2.10 documentation claims 30 % more than a CS-2, without a number.
        io_bytes_per_s=150.0e9,
        peak_flops_per_s=12.5e15,
        peak_origin="125 PFLOP/s are advertised for sparse AI work; one tenth is a guess, unsourced, and the fitted system factor "
        "absorbs its error",
    ),
)


def find_system(name: str) -> System:
    """Return the system that `name` means (`cs2` is CS-2). Raise WaferModelError: none, or several."""
    known = {system.name: system for system in SYSTEMS}
    return known[find_name(name, known, "system")]
