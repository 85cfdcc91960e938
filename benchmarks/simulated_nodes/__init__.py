"""Simulated nodes with a known law: does the plan hold on nodes of 8 to 256 CPUs?

    python -m benchmarks.simulated_nodes [--truth FILE]… [--seeds N] [--json OUT]

Each truth drives the real story, `workflows.analyze`, through a launcher that invents what its workers deliver. So probes, fit,
plan and budget are the product's own. Then every launch that fills the nodes is predicted, and compared with the truth.

A truth is a YAML file. Rates, seconds and bytes are those of a sample and of an idle node:

    name: JPEG, two sockets
    simulates: law | events       # a closed formula (laws.py), or an event simulation (events.py) that shares no formula with us
    feed: first-come | round-robin      # default first-come
    node:
      cpus: 64                    # hardware threads, as Slurm counts them
      sockets: 2                  # default 1
      threads_per_core: 1         # default 1
      memory_bytes: 2.56e11       # default 4 GB for each CPU
      all_core_clock: 0.8         # clock with all cores busy over that of one busy core; default 1
      smt_gain: 0.2               # what the second thread adds to the rate of a core; default 0.2
      memory_bytes_per_s: 2e11    # through the memory of a node; default no limit
      remote_slowdown: 1.4        # time of computing in a worker whose CPUs lie on several sockets; default 1
    cluster:
      nodes: 8
      storage_bytes_per_s: 5e9    # of the file system that all nodes share; default no limit
      storage_is_declared: true   # whether the user says so; default true
      spread: 0.03                # standard deviation of the log rate of nodes; default 0
      measured_nodes: 1           # nodes that launches may have (Slurm); default 1
    pipeline:
      parallel_s: 0.004           # CPU seconds in ops that run side by side
      serial_s: 0                 # CPU seconds in one op that runs on one thread at a time
      python_s: 0                 # CPU seconds in functions that hold Python's lock
      handoff_s: 0                # CPU seconds in which threads of a worker hold one lock (fine-grained pipelines)
      contention: 0               # of the universal scalability law; `law` only
      coherence: 0                # the same
      memory_bytes: 0             # through memory
      read_bytes: 0               # from the storage
      read_wait_s: 0              # latency of a read; `events` only
      readers: 4                  # reads that a worker has outstanding; `events` only
      element_cv: 0.3             # spread of the cost of elements; `events` only
      worker_bytes: 1e9           # private memory of a worker
      files: 100000               # that the pipeline deals out among workers
    noise:                        # standard deviations of the log rate
      process: 0.015
      launch: 0.02
      window: 0.015
      others: 0                   # share of the CPUs that other work takes in a launch: the mean of an exponential distribution
"""
