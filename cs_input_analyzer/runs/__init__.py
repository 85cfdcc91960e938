"""A monitored or logged training: one step table, one rule for batch gaps, one verdict.

A monitor in a training script or a log fills the table of `intervals`. `gaps` tells lost time from results that were read late,
`verdict` says whether the accelerator waited for its input, and `advice` which launch would feed it.

Monitors: `input_monitor` and `keras_callback` feed a `watch`; its `recorder` fills the table (`waiting`), `outputs` writes it
down. `in_process` measures a dataset by itself. Files: `files` finds and reads them (`console_log`, `grammar`, `journal`,
`event_files`), `pace` makes rates of their `step_lines`, `inspection` puts all together.
"""
