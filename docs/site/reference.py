"""The pages of the reference, made of the code: what `pr` has, all models with their settings, and all commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import typer
from docstrings import as_markdown

from purerec.cli.commands import app
from purerec.models.registry import REGISTRY

SECTIONS = {
    "Data": ["load", "read", "read_items", "read_labels", "ingest", "make_world", "Interactions"],
    "Splits": ["split", "given_split", "Split", "save_split", "load_split"],
    "Models": ["Recommender", "make_model", "load_model", "Run"],
    "Results": ["evaluate", "Evaluation", "evaluate_by", "compare", "Comparison", "metrics"],
    "Settings": ["tune", "Tuned", "estimate_prior"],
    "Your own": ["register", "register_metric", "register_reader"],
    "Errors": ["PurerecError"],
}
"""What `purerec` has, but for the models, which have a page of their own"""


def api() -> str:
    """Everything in `pr` that is not a model."""
    lines = ["# Python", "", "`import purerec as pr`; everything below is `pr.NAME`.", ""]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: purerec.{name}", ""]
    return "\n".join(lines)


def models() -> str:
    """All models: what they do, and their settings."""
    lines = ["# Models", "", "What all of them can do is `pr.Recommender`: see [Python](api.md).", ""]
    for name, (path, class_name) in REGISTRY.items():
        module = import_module(path)
        config = getattr(module, class_name).config_class
        lines += [f"## {name}", "", as_markdown(inspect.getdoc(module) or ""), ""]
        lines += _directive(f"purerec.{class_name}", inherited_members=False)
        if config.model_fields:
            lines += _directive(f"{config.__module__}.{config.__name__}", inherited_members=True)
    return "\n".join(lines)


def _directive(path: str, **options: Any) -> list[str]:
    told = [f"        {name}: {str(value).lower()}" for name, value in options.items()]
    return [f"::: {path}", "    options:", *told, ""]


def commands() -> str:
    """All commands, their arguments and options."""
    lines = ["# Command line", "", "`purerec COMMAND --help` shows the same.", ""]
    for words, command in _commands(typer.main.get_command(app), []):
        lines += [f"## purerec {' '.join(words)}", "", *_help(inspect.cleandoc(command.help or "")), ""]
        shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
        lines += ["| argument or option | meaning | default |", "| --- | --- | --- |"]
        lines += [_row(parameter) for parameter in shown]
        lines += [""]
    return "\n".join(lines)


def _commands(group: Any, before: list[str]) -> Iterator[tuple[list[str], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, [*before, name])
        else:
            yield [*before, name], command


def _help(text: str) -> list[str]:
    """A command's help; examples are set as such."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("Example:", "Examples:")):
            lines += ["Examples:", ""]
            line = line.partition(":")[2].strip()
            if not line:
                continue
            line = f"  {line}"
        lines.append(f"    {line.strip()}" if line.startswith("  ") else line)
    return lines


def _row(parameter: Any) -> str:
    is_option = hasattr(parameter, "is_flag")
    written = parameter.opts if is_option else [parameter.metavar or parameter.name]
    names = ", ".join(f"`{name}`" for name in written)
    kind = f" {parameter.metavar}" if is_option and parameter.metavar else ""
    meaning = " ".join((parameter.help or "").split()).replace("|", "\\|")
    nothing = parameter.default in (None, False, ...) or parameter.required
    default = "required" if parameter.required else "" if nothing else f"`{parameter.default}`"
    return f"| {names}{kind.replace('|', chr(92) + '|')} | {meaning} | {default} |"


PAGES: dict[str, Callable[[], str]] = {
    "reference/api.md": api,
    "reference/models.md": models,
    "reference/cli.md": commands,
}
