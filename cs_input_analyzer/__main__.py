"""Run the command line: `python -m cs_input_analyzer`."""

from cs_input_analyzer.cli import main

raise SystemExit(main())
