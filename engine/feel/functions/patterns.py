"""Owns the built-in functions that take a regular expression: matches, replace, split, extract.
Never parses or runs one itself.
Called by compiled invocations through the table of built-ins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from engine.feel.environment import Env
from engine.feel.faults import FeelFault
from engine.feel.functions.registry import builtin
from engine.feel.patterns import Ends, Meter, Program, check_flags, compile_pattern, every, matches_nothing, search
from engine.feel.values import Value

# Steps that compiling any pattern takes, beside those for its size, and finding one wrong, however late. An escape may
# stand for hundreds of ranges of characters.
_COMPILING, _ESCAPE, _REFUSING = 100, 250, 8_000

# Texts as they are, and numbers of groups.
Template: TypeAlias = list[str | int]


class _Paid(Meter):
    """A meter whose steps the evaluation pays for, used up or not. It has no more of them than the evaluation."""

    __slots__ = ("env",)

    def __init__(self, env: Env) -> None:
        super().__init__(min(env.limits.max_pattern_steps, env.steps_left))
        self.env = env

    def __enter__(self) -> _Paid:
        return self

    def __exit__(self, *_: object) -> None:
        if self.left < 0 and self.most < self.env.limits.max_pattern_steps:
            raise self.env.exhausted()
        self.env.spend(min(self.most, self.most - self.left))


def _judge(env: Env, constants: Mapping[str, Value], given: Collection[str]) -> None:
    """Refuse a pattern or flags that are wrong whatever the text is."""
    _judged(env, constants, given)


def _judge_consuming(env: Env, constants: Mapping[str, Value], given: Collection[str]) -> None:
    """Refuse what `_judge` does, a pattern that divides every text without end, and a wrong replacement."""
    program = _judged(env, constants, given)
    if program is None:
        return
    with _Paid(env) as meter:
        _check_consuming(program, meter)
    replacement = constants.get("replacement")
    if isinstance(replacement, str) and "q" not in str(constants.get("flags")):
        _template(replacement, program.groups)


def _judged(env: Env, constants: Mapping[str, Value], given: Collection[str]) -> Program | None:
    """The program of a constant pattern; None where it or its flags are not known, or no texts at all."""
    flags = constants.get("flags") or ""
    if ("flags" in given and "flags" not in constants) or not isinstance(flags, str):
        return None
    check_flags(flags)
    pattern = constants.get("delimiter", constants.get("pattern"))
    return _compiled(env, pattern, flags) if isinstance(pattern, str) else None


@builtin(
    "matches",
    "input: string, pattern: string, flags?: string|null",
    gives="boolean",
    judge=_judge,
    about="Whether a part of the text fits the regular expression; the flags are s, m, i, x and q",
)
def matches(env: Env, input: str, pattern: str, flags: str | None = None) -> Value:
    program = _compiled(env, pattern, flags or "")
    if program.literal:
        return program.literal in input
    with _Paid(env) as meter:
        return search(program, input, 0, meter) is not None


@builtin(
    "replace",
    "input: string, pattern: string, replacement: string, flags?: string|null",
    judge=_judge_consuming,
    gives="string",
    about="The text with what fits the regular expression replaced; `$1` stands for what group 1 has captured",
)
def replace(env: Env, input: str, pattern: str, replacement: str, flags: str | None = None) -> Value:
    named = flags or ""
    program = _compiled(env, pattern, named)
    with _Paid(env) as meter:
        _check_consuming(program, meter)
        template: Template = [replacement] if "q" in named else _template(replacement, program.groups)
        parts: list[str] = []
        size = at = 0
        for ends in every(program, input, meter):
            parts.append(input[at : ends[0]])
            size += ends[0] - at
            at = ends[1]
            for piece in template:
                parts.append(piece if isinstance(piece, str) else _captured(input, ends, piece))
                size += len(parts[-1])
            if size > env.limits.max_string:
                break
        env.check_string(size + len(input) - at)
        return "".join([*parts, input[at:]])


@builtin(
    "split",
    "string: string, delimiter: string",
    judge=_judge_consuming,
    about="The parts of a text between what fits a regular expression",
)
def split(env: Env, string: str, delimiter: str) -> Value:
    program = _compiled(env, delimiter, "")
    with _Paid(env) as meter:
        _check_consuming(program, meter)
        parts: list[Value] = []
        at = 0
        for start, end in _spans(env, program, string, meter):
            parts.append(string[at:start])
            at = end
        return [*parts, string[at:]]


@builtin(
    "extract",
    "string: string, pattern: string",
    judge=_judge,
    about="All parts of a text that fit a regular expression",
    origin="Camunda",
)
def extract(env: Env, string: str, pattern: str) -> Value:
    program = _compiled(env, pattern, "")
    with _Paid(env) as meter:
        return [string[start:end] for start, end in _spans(env, program, string, meter)]


def _compiled(env: Env, pattern: str, flags: str) -> Program:
    """The program of a pattern, or the fault that it has none; paid for where it is new to the evaluation."""
    if env.patterns is None:
        env.patterns = {}
    found = env.patterns.get((pattern, flags))
    if found is None:
        env.spend(_COMPILING + len(pattern) + len(flags) + _ESCAPE * pattern.count("\\"))
        try:
            found = compile_pattern(pattern, flags)
        except FeelFault as fault:
            found = fault
        env.patterns[pattern, flags] = found
        env.spend(found.cost if isinstance(found, Program) else _REFUSING)
    if isinstance(found, Program):
        return found
    raise FeelFault(found.cause)


def _check_consuming(program: Program, meter: Meter) -> None:
    if matches_nothing(program, meter):
        raise FeelFault("the pattern fits a text without characters, so it divides every text without end")


def _spans(env: Env, program: Program, text: str, meter: Meter) -> Iterator[tuple[int, int]]:
    count = 0
    for ends in every(program, text, meter):
        count += 1
        if count >= env.limits.max_list:
            break
        yield ends[0], ends[1]
    env.check_list(count + 1)


def _captured(text: str, ends: Ends, group: int) -> str:
    end = ends[2 * group + 1]
    return text[ends[2 * group] : end] if end >= 0 else ""


def _template(replacement: str, groups: int) -> Template:
    """The parts of a replacement. Raises FeelFault for a `$` or a backslash that stands alone."""
    if "$" not in replacement and "\\" not in replacement:
        return [replacement]
    template: Template = []
    at = 0
    while at < len(replacement):
        character, following = replacement[at], replacement[at + 1 : at + 2]
        if character == "$":
            group, at = _group(replacement, at, groups)
            template.append(group if group <= groups else "")
            continue
        if character == "\\":
            if following not in ("\\", "$"):
                raise FeelFault(f"the replacement is wrong at character {at + 1}: write '\\\\\\\\' for a backslash")
            character, at = following, at + 1
        at += 1
        template.append(character)
    return template


def _group(replacement: str, at: int, groups: int) -> tuple[int, int]:
    """The group that a `$` names, and where the text goes on: the longest number that is one digit or a group."""
    start = at = at + 1
    number = 0
    while at < len(replacement) and replacement[at] in "0123456789":
        longer = number * 10 + int(replacement[at])
        if longer > max(groups, 9):
            break
        number, at = longer, at + 1
    if at == start:
        raise FeelFault(f"the replacement is wrong at character {start}: after '$' comes a group's number; or '\\\\$'")
    return number, at
