"""What hosts, nodes, storage and clusters are: counters, page cache, mounts, presets, and what Slurm says of nodes."""
