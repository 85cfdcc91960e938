"""Reading runs that already happened: was the accelerator starved, how sure is that, and which launch would have fed it.

`files` opens, `scan` finds the lines worth parsing, `grammar` parses one, `steps` and `console_log` keep what they add up to,
`step_journal` and `event_files` read the other two forms of the same, `gather` finds the newest run of a folder. From there on all
is pure: `pace` makes rates of it, `workers` says who lags, `timeline` when, `clues` the verdict, `change` what to do; `inspection`
is the order of it.
"""

from cs_input_analyzer.run_logs.inspection import inspect_run

__all__ = ["inspect_run"]
