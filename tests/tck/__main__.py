"""Owns the command `python -m tests.tck`: its arguments, its progress and its exit code.
Never counts or compares; it prints what the report says.
Called from a shell.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.tck.outcome import Outcome
from tests.tck.report import report
from tests.tck.suite import TestFile, files_of, outcomes_of

_EXAMPLES = """examples:
  python -m tests.tck ../dmn-tck                         every level, counts only
  python -m tests.tck ../dmn-tck --level 3 --failures    one level, with each failure
  python -m tests.tck ../dmn-tck/compliance-level-2      the folder of one level
  python -m tests.tck my-suite/0001-filter --failures    the folder of a single test

exit code: 0 all passed, 1 some failed, 2 wrong use
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.tck",
        description="Run a compliance suite of DMN: folders with models (*.dmn) and test files (*-test-*.xml).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="a whole suite, one level of it, or a single test")
    parser.add_argument("--level", choices=["2", "3"], help="only the tests in compliance-level-2 or -3")
    parser.add_argument("--failures", action="store_true", help="print every result that did not come out, and why")
    parser.add_argument("--non-compliant", action="store_true", help="also the tests in non-compliant")
    options = parser.parse_args(arguments)
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    files = files_of(options.folder, options.level, non_compliant=options.non_compliant)
    if not files:
        level = f" of level {options.level}" if options.level else ""
        parser.error(f"{options.folder} holds no test file{level} (*-test-*.xml)")
    outcomes = list(_watched(files))
    for line in report(outcomes, failures=options.failures):
        print(line)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def _watched(files: Sequence[TestFile]) -> Iterator[Outcome]:
    """The outcomes of all files; tells on a terminal how far it is."""
    told = sys.stderr.isatty()
    for number, file in enumerate(files, 1):
        if told:
            print(f"\r\033[K{number}/{len(files)} {file.path.stem}", end="", file=sys.stderr, flush=True)
        yield from outcomes_of(file)
    if told:
        print("\r\033[K", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
