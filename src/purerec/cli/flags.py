"""Help without a type beside flags: `--quiet`, not `--quiet <bool>`, which looks as if a value had to follow."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup


class _PlainFlags:
    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command it is mixed into
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        return params


class PlainCommand(_PlainFlags, TyperCommand):
    """A command."""


class PlainGroup(_PlainFlags, TyperGroup):
    """A command with subcommands."""
