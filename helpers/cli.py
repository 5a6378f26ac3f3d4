"""The command `course`. Each subcommand parses, calls one helper, and prints what comes back."""

import argparse
import sys
from pathlib import Path

from helpers.errors import CourseError


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 0 for success, 1 for a failure, 2 for wrong usage."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that lacks a sign gets a question mark
    options = _parser().parse_args(arguments)
    try:
        return options.call(options)
    except CourseError as error:
        print(f"course: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course", description="CPU or GPU? Check this machine, and run the course's notebooks."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    check = commands.add_parser("check", help="say what TensorFlow can use here, and what to type next")
    check.set_defaults(call=_check)

    run = commands.add_parser("run", help="execute notebooks and write a page to look at")
    run.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="01 or matmul_sweep; none means all")
    run.add_argument("--preset", help="quick, laptop or full (default: $COURSE_PRESET, else laptop)")
    run.add_argument(
        "-p",
        dest="parameters",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "VALUE"),
        help="set a parameter: -p sizes 500,1000",
    )
    run.add_argument("--out", type=Path, default=Path("runs/latest"), help="folder (default: runs/latest)")
    run.add_argument("--resume", action="store_true", help="skip what has passed with the same code and values")
    run.set_defaults(call=_run)

    refresh = commands.add_parser("refresh", help="for authors: store the outputs of a full run in notebooks/")
    refresh.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="01 or matmul_sweep; none means all")
    refresh.set_defaults(call=_refresh)
    return parser


def _check(_options) -> int:
    from helpers import doctor

    print("Loading TensorFlow and trying every device: about 10 s.", flush=True)
    report = doctor.examine()
    print(report)
    return int(report.failed)


def _run(options) -> int:
    from helpers import runner

    given = dict(options.parameters)
    preset = given.pop("preset", options.preset)
    return runner.run(options.notebooks, preset, given, options.out, options.resume)


def _refresh(options) -> int:
    from helpers import runner

    return runner.refresh(options.notebooks)
