"""Run the command line: `python -m cs_input_analyzer`."""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130


def main() -> int:
    """Run one command and return its exit code. A Ctrl-C before the commands are imported leaves no traceback."""
    try:
        from cs_input_analyzer.cli import main as run
    except KeyboardInterrupt:
        print("cs_input_analyzer: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return run()


if __name__ == "__main__":
    raise SystemExit(main())
