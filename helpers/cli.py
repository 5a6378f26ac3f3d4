"""The command `course`. Each subcommand parses, calls one helper, and prints what comes back."""

import argparse
import sys
from pathlib import Path

from helpers.errors import CourseError, ParameterError


def main(arguments: list[str] | None = None) -> int:
    """Run one subcommand and return its exit code: 0 success, 1 a failure, 2 wrong usage, 130 stopped."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal that lacks a sign gets a question mark
    options = _parser().parse_args(arguments)
    try:
        return options.call(options)
    except CourseError as error:
        print(f"course: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("course: stopped", file=sys.stderr)
        return 130


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
        help="set a parameter, its name and its value apart: -p sizes 500,1000",
    )
    run.add_argument("--out", type=Path, help="folder (default: runs/latest of the course)")
    run.add_argument("--resume", action="store_true", help="skip what has passed with the same code and values")
    run.set_defaults(call=_run)

    compare = commands.add_parser("compare", help="make the chapter's table from the records of any machines")
    compare.add_argument(
        "folders", nargs="*", type=Path, metavar="DIR", help="folders with records (default: results/)"
    )
    compare.add_argument("--html", type=Path, metavar="FILE", help="write the table and its picture as a page, too")
    compare.set_defaults(call=_compare)

    data = commands.add_parser("data", help="say which pictures are here, and how to get the rest")
    data.set_defaults(call=_data)

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
    if options.preset not in (None, preset):
        raise ParameterError(
            f"Two presets were given: {preset} and {options.preset}.", "One is accepted.", "Leave one out."
        )
    out = options.out or runner.RUNS / "latest"
    return runner.run(options.notebooks, preset, given, out, options.resume)


def _compare(options) -> int:
    from helpers import compare, parameters

    found = compare.chapter(*(options.folders or [parameters.PROJECT / "results"]))
    print(found)
    if options.html and found.rows:
        from helpers import report

        print(f"Look at {report.write_comparison(found, options.html)}")
    return int(not found.rows)


def _data(_options) -> int:
    from helpers import datasets

    found = datasets.inventory()
    print("\n".join(words for _, words in found.values()))
    return int(not all(is_here for is_here, _ in found.values()))


def _refresh(options) -> int:
    from helpers import refresh

    return refresh.refresh(options.notebooks)
