"""The command `course`. Each subcommand parses, calls one helper, and prints what comes back."""

import argparse
import contextlib
import json
import os
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

    _add_predict(commands)

    data = commands.add_parser("data", help="say which pictures are here, and how to get the rest")
    data.set_defaults(call=_data)

    refresh = commands.add_parser("refresh", help="for authors: store the outputs of a full run in notebooks/")
    refresh.add_argument("notebooks", nargs="*", metavar="NOTEBOOK", help="01 or matmul_sweep; none means all")
    refresh.set_defaults(call=_refresh)
    return parser


def _add_predict(commands) -> None:
    predict = commands.add_parser(
        "predict", help="say how fast a model will train on devices that may not be here, and which one wins"
    )
    predict.add_argument(
        "models",
        nargs="*",
        metavar="MODEL",
        help="my_model.keras, my_file.py:function, module:function, or a network of the course: mnist_mlp",
    )
    predict.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="DEVICE",
        help='"RTX 4090", "T4" … (see --devices), here, or reference; the others are compared with the first '
        "(default: here, or reference where this machine is not calibrated, and T4)",
    )
    predict.add_argument("--batch", default="1..4096", help="32, or 1,8,100, or 1..4096 (default) in powers of two")
    predict.add_argument("--way", default="fit", help="fit (default), steps_per_execution or resident")
    predict.add_argument("--json", metavar="FILE", help="write the numbers for programs, too; - prints them alone")
    predict.add_argument("--picture", type=Path, metavar="FILE.png", help="draw time against batch size")
    predict.add_argument("--devices", action="store_true", help="list the devices that are known")
    predict.add_argument("--calibrate", action="store_true", help="measure this machine first: about a minute")
    predict.set_defaults(call=_predict)


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


def _predict(options) -> int:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow would say between our lines what it can use
    from helpers import forecast, loading

    if options.devices:
        print(forecast.catalogue())
        return 0
    if options.picture and options.picture.suffix.lower() != ".png":
        raise _not_written(options.picture, "its name does not end in .png")
    batches = forecast.batches(options.batch)
    if options.calibrate:
        _calibrate()
    if not options.models and not options.calibrate:
        raise ParameterError("No model was named.", loading.ACCEPTED, "Type `course predict mnist_mlp`, for example.")
    machines, problems = forecast.machines(options.on)
    with contextlib.redirect_stdout(sys.stderr):  # a user's function may print
        models = [loading.load(text) for text in options.models]
    found = [
        forecast.of(model, machines, batches, options.way, title)
        for title, model in zip(options.models, models, strict=True)
    ]
    if options.json != "-":
        print("\n\n".join(map(str, found)))
    print(*(f"Not used: {problem}" for problem in problems), sep="\n", end="\n" * bool(problems), file=sys.stderr)
    _keep(found, options)
    return 0


def _calibrate() -> None:
    from helpers import forecast

    for device in forecast.to_calibrate():
        print(f"Measuring {device}: about a minute. Leave the machine alone.", file=sys.stderr, flush=True)
        print(f"Calibrated, {forecast.calibrated_now(device).name}.", file=sys.stderr)


def _keep(found: list, options) -> None:
    """Write forecasts for programs and as a picture, where that was asked for."""
    text = json.dumps({"schema": 1, "models": [one.as_json() for one in found]}, indent=1, allow_nan=False)
    if options.json == "-":
        print(text)
    elif options.json:
        _write(Path(options.json), lambda path: path.write_text(text + "\n", encoding="utf-8"))
    if options.picture and found:
        _write(options.picture, _drawn(found).savefig)
        print(f"Look at {options.picture}", file=sys.stderr)


def _drawn(found: list):
    from matplotlib.figure import Figure

    from helpers import plots, prediction_plots

    found = [one for one in found if one.curves()]
    if not found:
        raise ParameterError(
            "There is nothing to draw: no batch fits into the memory of any device.",
            "Accepted are batches that fit into at least one.",
            "Take smaller ones: --batch 1..64, for example.",
        )
    plots.use_style()
    figure = Figure(figsize=(8, 5 * len(found)), layout="constrained")
    for one, ax in zip(found, figure.subplots(len(found), squeeze=False).flat, strict=True):
        crossover = one.crossovers[0] if len(one.crossovers) == 1 else None
        prediction_plots.time_against_batch(one.curves(), ax, crossover).set_title(one.title, pad=40)
    return figure


def _write(path: Path, write) -> None:
    try:
        write(path)
    except OSError as error:
        raise _not_written(path, error.strerror or str(error)) from error


def _not_written(path: Path, problem: str) -> ParameterError:
    return ParameterError(
        f"{path} cannot be written: {problem}.",
        "Accepted is the name of a file in a folder that exists.",
        "Use --picture forecast.png or --json forecast.json, for example.",
    )


def _data(_options) -> int:
    from helpers import datasets

    found = datasets.inventory()
    print("\n".join(words for _, words in found.values()))
    return int(not all(is_here for is_here, _ in found.values()))


def _refresh(options) -> int:
    from helpers import refresh

    return refresh.refresh(options.notebooks)
