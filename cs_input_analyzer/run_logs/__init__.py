"""Reads runs that already happened: was the accelerator starved, how sure is that, and which launch would have fed it.

`files` finds the files of a run, `scan` the lines worth parsing, `grammar` makes a row of each, `console_log` assigns the rows to
runs and writers, `steps` makes a table of a writer's rows; `step_journal` and `event_files` read the other two forms of the same,
`gather` finds the newest run of a folder. From there on all is pure: `pace` makes rates of the table (`batch_size`: of samples),
`workers` finds stragglers, `clues` the verdict, `change` the launch; `inspection` orders the stages and makes the timeline.
"""

from cs_input_analyzer.run_logs.inspection import inspect_run

__all__ = ["inspect_run"]
