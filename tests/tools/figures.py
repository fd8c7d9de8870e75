"""What the tools that show compilers' figures share. `results` and a --json file's "chips" are both
{chip: {"pipelines": {name: {figure: number or None}}}}."""
import json


def shown(value):
    return "-" if value is None else f"{value:.0f}"


def print_table(header, rows):
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [str(row[0]).ljust(widths[0])] + [str(c).rjust(w) for c, w in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def print_changes(results, baseline, figures):
    """What differs from an earlier --json, by chip and pipeline."""
    rows = []
    for chip, result in results.items():
        before = baseline.get(chip, {})
        for name in sorted(before.keys() | result["pipelines"].keys()):
            old, new = before.get(name), result["pipelines"].get(name)
            if old is None or new is None:
                rows.append([chip, name, "-", "gone" if new is None else "new", "", ""])
                continue
            for figure in figures:
                was, now = old.get(figure), new[figure]
                if was != now:
                    rows.append([chip, name, figure, shown(was), shown(now),
                                 f"{now / was:.2f}" if was and now is not None else "-"])
    if rows:
        print_table(["chip", "pipeline", "figure", "baseline", "now", "ratio"], rows)
    else:
        print("nothing differs from the baseline")


def read_baseline(path, figures):
    """The pipelines by chip. Raises one of several errors for a file that --json did not write."""
    with open(path, encoding="utf-8") as file:
        chips = json.load(file)["chips"]
    baseline = {chip: dict(result["pipelines"]) for chip, result in chips.items()}
    for pipelines in baseline.values():
        for one in pipelines.values():
            sum(one.get(figure) or 0 for figure in figures)  # they are numbers
    return baseline


def open_files(parser, arguments, figures):
    """The baseline, or None, and the report to write, or None; ends the program if one of them is no good."""
    baseline = report = None
    try:
        if arguments.baseline:
            baseline = read_baseline(arguments.baseline, figures)
        if arguments.json:
            report = open(arguments.json, "w", encoding="utf-8")
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError):
        parser.error(f"--baseline: {arguments.baseline} is not what --json wrote")
    return baseline, report


def write_report(report, results):
    if report:
        json.dump({"chips": results}, report, indent=1)
        report.close()
