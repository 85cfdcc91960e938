"""`python -m cs_input_analyzer.report` prints docs/run-schema.json: the JSON Schema of a run."""

from __future__ import annotations

from cs_input_analyzer.report.to_json import json_schema

if __name__ == "__main__":
    print(json_schema(), end="")
