"""Run inside a worker process: load, sample, measure costs, try fixes, and write a journal."""
