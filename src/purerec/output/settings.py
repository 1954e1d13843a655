"""Settings as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def shown_settings(config: BaseModel, resolved: Mapping[str, int | float]) -> dict[str, Any]:
    """Every setting by name; one derived from the data is shown as '16 (by default)'."""
    return {
        name: f"{resolved[name]:.4g} (by default)" if name in resolved else value
        for name, value in config.model_dump(mode="json").items()
    }
