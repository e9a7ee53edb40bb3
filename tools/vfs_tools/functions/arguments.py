"""The base of what models pass to tools, and its JSON Schema in two dialects."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

__all__ = ["Arguments", "PathText", "Text", "json_schema", "problems"]


def _encodable(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("holds half of a surrogate pair, which is no text") from None
    return text


Text = Annotated[str, AfterValidator(_encodable)]
"""A string that UTF-8 can carry; JSON allows lone surrogates, files and names do not."""


def _not_empty(path: str) -> str:
    if not path:
        raise ValueError("an empty path names nothing")
    return path


PathText = Annotated[Text, AfterValidator(_not_empty)]
"""A path as a model writes it; everything else about it is the kernel's to judge."""


class Arguments(BaseModel):
    """Arguments of one tool: strict types, nothing extra; null for an optional one means its default."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {key: value for key, value in data.items() if value is not None or key not in optional}


def problems(error: ValidationError) -> str:
    """Return what is wrong with the arguments in one line, for a model to read."""
    return "; ".join(
        f"`{'.'.join(map(str, one['loc'])) or 'arguments'}`: {_message(one['msg'])}"
        for one in error.errors(include_url=False, include_context=False, include_input=False)
    )


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def json_schema(model: type[BaseModel], *, strict: bool) -> dict[str, Any]:
    """Return the JSON Schema of `model`: inlined, each property with its description, nothing extra allowed.

    With `strict` it obeys the rules of OpenAI's strict mode: every property is required, an optional one may
    be null instead, and no keyword is used that strict mode refuses (`default`, `minLength` …); what these say
    is said in the descriptions too.
    """
    schema = model.model_json_schema()
    return _render(schema, schema.get("$defs", {}), strict=strict)


_DROPPED = frozenset({"title", "$defs"})
_REFUSED = frozenset({"default", "minLength", "maxLength"})


def _render(schema: dict[str, Any], definitions: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
        del schema["$ref"]
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or (strict and key in _REFUSED):
            continue
        if key == "properties":
            found[key] = {n: _render(one, definitions, strict=strict) for n, one in value.items()}
        elif key == "items":
            found[key] = _render(value, definitions, strict=strict)
        elif key == "description":
            found[key] = re.sub(r"\s+", " ", value)
        else:
            found[key] = value
    if found.get("type") == "object":
        found.pop("description", None)  # the model's docstring is for us; tools and properties have their own
        found.setdefault("properties", {})
        _close(found, strict=strict)
    return found


def _close(found: dict[str, Any], *, strict: bool) -> None:
    """Allow no further properties; in strict mode require all, with null for the optional ones."""
    found["additionalProperties"] = False
    required = found.get("required", [])
    if strict:
        for name, one in found["properties"].items():
            if name not in required:
                one["type"] = [one["type"], "null"]
                if "enum" in one:
                    one["enum"] = [*one["enum"], None]
        required = list(found["properties"])
    found["required"] = required
