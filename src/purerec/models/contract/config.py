"""The settings of a model, and how they are built from single ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from purerec.errors import ConfigError, did_you_mean, first_problem
from purerec.models.contract.search_space import SearchSpace

if TYPE_CHECKING:
    from purerec.models.contract.recommender import Recommender


class Config(BaseModel):
    """Settings of a model: frozen, bounded, and closed to unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    search_space: ClassVar[SearchSpace] = {}
    """What `purerec tune` may change, and how far."""

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # pydantic accepts True as 1
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("must be a number or text, not true or false")
        return value


def make_config(model: type[Recommender], settings: Mapping[str, Any]) -> Config:
    """The config of a model from single settings; text values (from the command line) are converted."""
    known = model.config_class.model_fields
    for name in settings:
        if name not in known:
            raise ConfigError(f"{model.name} has no setting {name!r}; {did_you_mean(name, known)}")
    try:
        return model.config_class(**settings)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        if place and _says_none(settings[str(place[0])]):
            return make_config(model, {**settings, str(place[0]): None})
        raise ConfigError(f"{model.name}: {first_problem(error)}") from None


def _says_none(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in ("none", "null")
