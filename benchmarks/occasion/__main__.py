"""`python -m benchmarks.occasion measure` and `python -m benchmarks.occasion report`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.occasion import measuring, report
from benchmarks.occasion.saved import DATA
from benchmarks.paired import save


def main() -> None:
    parser = argparse.ArgumentParser(description="How far launches that are alike differ from hour to hour.")
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure", help="measure one occasion and append it to the file")
    measured.add_argument("--file", type=Path, default=DATA)
    measured.add_argument("--pipelines", type=lambda text: tuple(text.split(",")), default=measuring.PIPELINES)
    measured.add_argument("--launches", type=int, default=measuring.LAUNCHES)
    measured.add_argument("--slices", type=int, default=measuring.SLICES)
    measured.add_argument("--slice-s", type=float, default=measuring.SLICE_S)
    measured.add_argument("--max-seconds", type=float, default=measuring.MAX_SECONDS)
    reported = commands.add_parser("report", help="the spread within and between the occasions measured so far")
    reported.add_argument("--file", type=Path, default=DATA)
    reported.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.command == "report":
        save(options.json, report.show_all(options.file))
        return
    unknown = set(options.pipelines) - set(measuring.PIPELINES)
    if unknown:
        parser.error(f"no pipeline is called {', '.join(sorted(unknown))}; there are {', '.join(measuring.PIPELINES)}")
    names = ("pipelines", "launches", "slices", "slice_s", "max_seconds")
    plan = measuring.Plan(**{name: getattr(options, name) for name in names})
    occasion = report.read(measuring.measure(plan, options.file))
    print(f"{options.file}: {len(occasion.slices)} slices more, {'; '.join(occasion.marks) or 'undisturbed'}")


if __name__ == "__main__":
    main()
