"""The pages for users: each command line on them is one that the tool takes, and the tutorial runs as it is written."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from cs_input_analyzer.cli import cli
from cs_input_analyzer.cli.original import is_original, original
from tests.functional.running import ran

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))))
PROGRAM = "cs_input_analyzer"
# A code block without a language, or of the shell.
BLOCK = re.compile(r"^```(?:bash|console|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words after the name of the program, of each line of a code block that begins a command of ours."""
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if f"{PROGRAM} " not in line or "COMPLETE=" in line or line.startswith(PROGRAM + ":"):
                continue
            before, _, after = line.partition(f"{PROGRAM} ")
            # Alone, behind a launcher, or within a shell's <( ). No import of Python, no form with brackets.
            if re.fullmatch(r"[ \w=./<(-]*", before) and re.match(r"(?!as )[a-z-]", after) and "import" not in before:
                yield shlex.split(after.rstrip(" )") if "(" in before else after, comments=True)


def parsed(words: list[str]) -> None:
    """Parse a command line as click does. Raise UsageError for a command or an option that is not there."""
    words = [word for word in words if word != "…"]
    command: click.Command = original
    if not is_original(words, cli.commands):
        if words[0] not in cli.commands:
            raise click.NoSuchOption(words[0])
        command, words = cli.commands[words[0]], words[1:]
    command.make_parser(click.Context(command, **command.context_settings)).parse_args(words)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_line_of_a_page_is_taken(page: str) -> None:
    refused = []
    for words in command_lines((ROOT / page).read_text(encoding="utf-8")):
        try:
            parsed(words)
        except click.UsageError as error:
            refused.append(f"{' '.join(words)}: {error.format_message()}")
    assert refused == []


def test_command_lines_are_found() -> None:
    lines = [words for page in PAGES for words in command_lines((ROOT / page).read_text(encoding="utf-8"))]
    assert {"analyze", "tune", "plan", "validate", "compare", "report", "inspect-run", "wafer"} <= {words[0] for words in lines}
    assert any("python" in words and words[0] != "analyze" for words in lines)


@pytest.mark.parametrize("line", ["analyze data.py:f --no-such", "--no-such 3 python run.py", "nothing data.py:f"])
def test_a_command_line_that_is_not_there_is_noticed(line: str) -> None:
    (words,) = command_lines(f"```\nsrun -N1 {PROGRAM} {line}\n```\n")
    with pytest.raises(click.UsageError):
        parsed(words)


def test_a_line_that_takes_a_node_takes_all_of_its_memory() -> None:
    """`--exclusive` does not give it where a site sets memory for each CPU."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / PROGRAM).rglob("*.py")]
    options = [found for text in texts for found in re.findall(rf"srun -N1 (.*?){PROGRAM}", text)]
    assert set(options) == {"--exclusive --mem=0 "}


def test_every_page_has_its_place_on_the_site() -> None:
    """A page that the navigation of mkdocs.yml does not name is found by nobody."""
    named = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(page.removeprefix("docs/") for page in PAGES if page.startswith("docs/"))


@pytest.mark.long
@pytest.mark.tf
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_tutorial_runs_as_it_is_written(tmp_path: Path) -> None:
    """On a busy host no gain may be told from noise. Then there is no patch, and the change of the page is made by hand."""
    for name, code in re.findall(r'^```python title="([\w.]+)"\n(.*?)^```$', TUTORIAL, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    commands = "".join(re.findall(r"^```bash\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL))
    assert commands.count(f"{PROGRAM} ") >= 8
    old, new = re.search(r"^```diff\n-(.*)\n\+(.*)\n```$", TUTORIAL, re.MULTILINE).groups()
    change = shlex.quote(f"s/^{old}$/{new}/")
    ours = f"""python() {{ {shlex.quote(sys.executable)} "$@"; }}
        {PROGRAM}() {{ python -m {PROGRAM} "$@"; }}
        patch() {{ if [ -e faster.patch ]; then command patch "$@"; else sed -i {change} data.py; fi; }}"""
    done = ran(["bash", "-euc", f"{ours}\n{commands}"], tmp_path, 800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    analysis = import_module(PROGRAM)
    slow, fast = (analysis.load_analysis(tmp_path / name) for name in ("slow.json", "fast.json"))
    assert fast.supply.estimate > slow.supply.estimate
    assert new in (tmp_path / "data.py").read_text(encoding="utf-8").splitlines()
    assert "#SBATCH" in (tmp_path / "train.sbatch").read_text(encoding="utf-8")
