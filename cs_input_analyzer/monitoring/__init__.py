"""Watches a training from inside its script: is it waiting for its input? A record of the run stays behind.

`InputMonitor` wraps whatever a loop iterates over; `KerasInputMonitor` is a callback of `model.fit`. Both take the same `settings`
and feed one `watch.Watch`. Its `accounting` adds up what was seen: `rates` says how fast, `phases` what kind of time a step was,
`waiting` how long the accelerator stood still for want of input, `verdict` what follows from it (all pure). `outputs` writes it
down, `advice` asks a saved analysis which launch would help, `alone` reads the input by itself where its waits are out of sight.
Runs that are over are read by `run_logs`.

What a run leaves in its `log_dir`, to the last key, is in docs/monitoring.md.
"""

from __future__ import annotations

from cs_input_analyzer.monitoring.input_monitor import InputMonitor
from cs_input_analyzer.monitoring.monitor import Summary
from cs_input_analyzer.monitoring.verdict import Verdict

__all__ = ["InputMonitor", "Summary", "Verdict"]
