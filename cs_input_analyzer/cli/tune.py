"""`tune`: the fixes that gain, as a patch of the user's source."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cs_input_analyzer.cli import options as shared
from cs_input_analyzer.cli.analyze import on_own_files, request_of
from cs_input_analyzer.cli.command import Command, mistakes
from cs_input_analyzer.cli.running import Output, typed_command
from cs_input_analyzer.cli.terminal import complain
from cs_input_analyzer.errors import UsageError

if TYPE_CHECKING:
    from cs_input_analyzer.records import Analysis


@click.command(cls=Command, notes_more=True, examples=("cs_input_analyzer tune data.py:train_input_fn --write-patch faster.patch",))
@click.argument("target")
@click.option("--write-patch", "patch_file", metavar="FILE", help="Write the patch; your own files stay as they are.")
@shared.with_options(shared.TARGET, shared.STAND_INS, shared.analysis(90.0), shared.SBATCH_ARGS, shared.RULES, shared.FILES)
def tune(target: str, params_file: str | None, overrides: tuple[str, ...], patch_file: str | None, **choices: Any) -> int:
    """Prove and measure the fixes that findings of TARGET propose; print those that gain as a patch.

    TARGET is an input function, package.module:function or path/file.py:function.
    """
    from cs_input_analyzer import report as reports
    from cs_input_analyzer.files import check_writable
    from cs_input_analyzer.workflows import launched

    found_wrong = mistakes()
    output = Output.taken(choices)
    if patch_file is not None:
        with found_wrong:
            written = check_writable(patch_file)
            if any(os.path.realpath(path) == str(written) for path in output.files.values()):
                raise UsageError(f"--write-patch {patch_file}: another option names the same file: give each its own")
        if patch_file.endswith(".py"):
            found_wrong.note(
                f"--write-patch {patch_file}: a patch is no Python file; name it for example {Path(patch_file).stem}.patch"
            )
    if not choices["measure_fixes"]:
        found_wrong.note("--no-measure-fixes: measuring fixes is all that tune does")
    request = replace(request_of(target, params_file, overrides, choices, typed_command()), is_tuning=True)
    found = output.measured(
        request.options.max_seconds,
        lambda progress, is_allowed: launched.analyze(on_own_files(request, is_allowed), progress=progress),
        request.options.on_own_files,
    )
    write_patch = None if patch_file is None else partial(_write_patch, found, patch_file)
    output.deliver(found, partial(reports.render_tuning, found), write_patch, keeps=True)
    return output.exit_code(found, is_interrupted=found.interrupted)


def _write_patch(found: Analysis, path: str) -> None:
    """Write the patch if it is proven; say what became of it."""
    from cs_input_analyzer import report as reports

    patch = found.fixes.patch if found.fixes is not None else None
    if patch is None or not patch.diff:
        complain(f"there is nothing to patch, so {path} is not written")
    elif not patch.proven:
        complain(
            f"that the patched source gives the same elements was not verified ({patch.unproven_because}), so {path} is not written"
        )
    else:
        reports.write_text_atomically(path, patch.diff)
        where, file = shlex.quote(patch.folder), shlex.quote(str(Path(path).resolve()))
        complain(f"patch written to {path}; to apply it: cd {where} && patch -p0 < {file}")
