"""Describe hosts, nodes, storage and clusters: counters, page cache, mounts, presets, and Slurm's view of nodes."""
