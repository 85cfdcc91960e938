"""Watches a training from inside its script: is it waiting for its input? A record of the run stays behind.

`InputMonitor` wraps whatever a loop iterates over; `KerasInputMonitor` is a callback of `model.fit`. Both take the same `settings`
and feed one `watch.Watch`. Its `accounting` adds up what was seen: `rates` says how fast, `phases` what kind of time a step was,
`waiting` how long the accelerator stood still for want of input, `verdict` what follows from it (all pure). `outputs` writes it
down, `advice` asks a saved analysis which launch would help, `alone` reads the input by itself where its waits are out of sight.
Runs that are over are read by `run_logs`.

What a run leaves in its `log_dir`; where there are several workers, each writes into a folder of its own, `<log_dir>/<worker>/`,
named for its place in `TF_CONFIG` (`chief-0`, `worker-3`) or among the processes of its launcher (`rank-3`). A monitor that finds
another at work there writes into `monitor-2` below:

- `steps.jsonl`: one JSON object a line, in order of time, each with an `event`. Every `*_s` is in seconds, `at_s` since the monitor
  began on its own clock; what is not known is null. A run that goes on in the folder of an earlier one appends, with an empty line
  and a `start` of its own; a line may be cut where a process was killed. Events and their keys:

  - `start`: format (1), tool, worker, rank, workers, host, time_unix_s, source (`iterator`, `keras`), batch_size,
    device, smoothing
  - `step`: step (number of the last training step in it, from 1), steps (how many it holds), at_s (when its input was asked for),
    samples (null where not countable), wait_s (host's wait for input; null where that happens out of sight), step_s (the rest of
    the step; for wait_s null all of it), phase (`start_up`, `steady`, `checkpoint`, `spike`, `epoch_edge`)
  - `phase`: a stretch that is not training: phase (`start_up`, `fill`, `epoch_edge`), at_s, duration_s, step
  - `checkpoint`: such a stretch too: at_s, duration_s, step, found (true where nobody marked it)
  - `log`: step, at_s, loss, rate, global_rate (samples per second; null until seen), wait_ratio
  - `loaded` (at_s, step): the executable is loaded, GlobalRate counts from here; `epoch` (at_s, epoch, step): a pass begins;
    `error` (at_s, step, kind): the iterator raised
  - `verdict` (at_s, step, verdict, why, wait_ratio{estimate, low, high}): each time that it changes
  - `end`, after each pass over the data and in the end; the last one counts: at_s, steps, samples, rate, global_rate, verdict, why,
    wait_ratio, `phases`, seconds by phase, and dropped_lines, for which a slow or stalled file system left no room

  Of a long run not every line is written: of each kind but `start`, `verdict`, `end` and `error` the first 262,144, then every
  second one up to twice as many, every fourth up to four times as many, and so on.

- `performance.json`: compile_time, est_samples_per_sec, programming_time, samples_per_sec, suspected_input_bottleneck,
  total_samples, total_time; null where not known. `suspected_input_bottleneck` is `Not Applicable`, or begins with `true` or
  `false`.
- TensorBoard events: `local_samples_per_sec` (Rate), `avg_samples_per_sec` (GlobalRate), `input_wait_ratio`.
"""

from __future__ import annotations

from cs_input_analyzer.monitoring.input_monitor import InputMonitor
from cs_input_analyzer.monitoring.monitor import Summary
from cs_input_analyzer.monitoring.verdict import Verdict

__all__ = ["InputMonitor", "Summary", "Verdict"]
