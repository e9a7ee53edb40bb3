"""The tools in the forms of model providers."""

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tools.conftest import World, rows
from vfs_tools.functions import (
    SandboxToolset,
    anthropic_tools,
    arun_anthropic,
    arun_openai,
    openai_tools,
    run_anthropic,
    run_openai,
)

NAMES = [
    "read_file", "write_file", "list_files", "stage_for_commit",
    "edit_file", "search", "glob", "read_bytes", "file_info", "make_dir", "move", "delete", "list_staged",
]  # fmt: skip
STRICT_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "description", "enum",
    "minimum", "maximum",
}  # fmt: skip


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the schema and every schema within."""
    yield schema
    for one in schema.get("properties", {}).values():
        yield from objects(one)
    if "items" in schema:
        yield from objects(schema["items"])


def test_anthropic_tools_have_name_description_and_input_schema(world: World) -> None:
    tools = anthropic_tools(world.toolset())
    assert [tool["name"] for tool in tools] == NAMES
    for tool in tools:
        assert list(tool) == ["name", "description", "input_schema"]
        assert len(tool["description"]) > 40
        assert tool["input_schema"]["type"] == "object"
        assert json.loads(json.dumps(tool)) == tool
    read = tools[0]["input_schema"]
    assert read["required"] == ["path"]
    assert read["properties"]["offset"] == {
        "description": "Number of the first line to read, counted from 1 (default 1).",
        "type": "integer",
        "default": 1,
        "minimum": 1,
    }


def test_openai_tools_have_the_form_of_their_api(world: World) -> None:
    tools = world.toolset()
    chat, responses = openai_tools(tools), openai_tools(tools, api="responses")
    assert [tool["function"]["name"] for tool in chat] == NAMES
    for one, other in zip(chat, responses, strict=True):
        assert list(one) == ["type", "function"]
        assert other == {"type": "function", **one["function"]}
        assert list(one["function"]) == ["name", "description", "parameters", "strict"]
    with pytest.raises(ValueError, match="`chat` and `responses` are"):
        openai_tools(tools, api="completions")  # type: ignore[arg-type]  # what is refused


def test_strict_schemas_obey_the_rules_of_strict_mode(world: World) -> None:
    for tool in openai_tools(world.toolset()):
        for schema in objects(tool["function"]["parameters"]):
            assert set(schema) <= STRICT_KEYWORDS
            if "properties" in schema:
                assert schema["additionalProperties"] is False
                assert schema["required"] == list(schema["properties"])
    search = openai_tools(world.toolset())[5]["function"]["parameters"]["properties"]
    assert search["pattern"]["type"] == "string"
    assert search["context"]["type"] == ["integer", "null"]


def test_every_parameter_is_described_and_nothing_else_is_allowed(world: World) -> None:
    for tool in anthropic_tools(world.toolset()):
        for schema in objects(tool["input_schema"]):
            if schema["type"] == "object":
                assert schema["additionalProperties"] is False
                assert all(len(one["description"]) > 10 for one in schema["properties"].values())
            assert "title" not in schema
            assert "$ref" not in schema


def test_null_for_an_optional_parameter_is_its_default(world: World) -> None:
    sandbox = world.sandbox(repo={"a": "x\n"})
    tools = SandboxToolset(sandbox)
    for tool in openai_tools(tools):
        function = tool["function"]
        properties = function["parameters"]["properties"]
        values = {name: {"string": f"/repo/{name}", "array": []} for name in properties}
        args = {name: values[name].get(str(one["type"])) for name, one in properties.items()}
        assert tools.execute(function["name"], args).to_dict().get("code") != "INVALID_ARGUMENTS"


def test_a_tool_use_block_is_answered_by_a_tool_result(world: World) -> None:
    tools = world.toolset(repo={"a": "größe 😀"})
    block = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "/repo/a"}}
    expected = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": '{"success": true, "content": "größe 😀"}',
        "is_error": False,
    }
    assert run_anthropic(tools, block) == expected
    assert run_anthropic(tools, SimpleNamespace(**block)) == expected
    assert asyncio.run(arun_anthropic(tools, block)) == expected


def test_a_refusal_is_an_error_that_the_model_can_read(world: World) -> None:
    tools = world.toolset("untrusted")
    block = {"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "/repo/a"}}
    answer = run_anthropic(tools, block)
    assert answer["is_error"] is True
    assert json.loads(answer["content"])["hint"] == "This file is outside your accessible zones."


def chat_call(arguments: str, name: str = "read_file") -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def responses_call(arguments: str, name: str = "read_file") -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}


def test_a_chat_completions_call_is_answered_by_a_tool_message(world: World) -> None:
    tools = world.toolset(repo={"a": "x"})
    call = chat_call('{"path": "/repo/a", "offset": null, "limit": null}')
    expected = {"role": "tool", "tool_call_id": "call_1", "content": '{"success": true, "content": "x"}'}
    assert run_openai(tools, call) == expected
    assert asyncio.run(arun_openai(tools, call)) == expected
    as_object = SimpleNamespace(**{**call, "function": SimpleNamespace(**call["function"])})
    assert run_openai(tools, as_object) == expected


def test_a_responses_call_is_answered_by_its_output_item(world: World) -> None:
    tools = world.toolset(repo={"a": "x"})
    call = responses_call('{"path": "/repo/a"}')
    expected = {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": '{"success": true, "content": "x"}',
    }
    assert run_openai(tools, call) == expected
    assert run_openai(tools, SimpleNamespace(**call)) == expected


BAD_ARGUMENTS = [
    ('{"path": "/repo/a"', "the arguments of `read_file` are not JSON: "),
    ("[1]", "the arguments of `read_file` are not a JSON object"),
    ('"path"', "the arguments of `read_file` are not a JSON object"),
    ("null", "the arguments of `read_file` are not a JSON object"),
    ("[" * 100_000, "the arguments of `read_file` are not a JSON object"),
    ("", "invalid arguments for `read_file`: `path`: field required"),
    ('{"path": 1}', "invalid arguments for `read_file`: `path`: input should be a valid string"),
    ('{"path": "a", "offset": "2"}', "invalid arguments for `read_file`: `offset`: input should be a valid"),
    ('{"path": "a", "limit": 0}', "invalid arguments for `read_file`: `limit`: input should be greater"),
    (
        '{"path": "a", "mode": "r"}',
        "invalid arguments for `read_file`: `mode`: extra inputs are not permitted",
    ),
]


@pytest.mark.parametrize("make", [chat_call, responses_call])
@pytest.mark.parametrize(("arguments", "error"), BAD_ARGUMENTS)
def test_bad_arguments_become_a_result_and_no_access(
    world: World, make: Any, arguments: str, error: str
) -> None:
    sandbox = world.sandbox()
    answer = run_openai(SandboxToolset(sandbox), make(arguments))
    result = json.loads(answer.get("content") or answer["output"])
    assert (result["success"], result["code"]) == (False, "INVALID_ARGUMENTS")
    assert result["error"].startswith(error)
    assert result["hint"]
    assert rows(sandbox) == []


def test_an_unknown_tool_becomes_a_result(world: World) -> None:
    result = json.loads(run_openai(world.toolset(), chat_call("{}", "run_shell"))["content"])
    assert result["code"] == "UNKNOWN_TOOL"
    assert "`read_file`" in result["hint"]


def test_calls_made_at_the_same_time_are_all_answered(world: World) -> None:
    tools = world.toolset(repo={f"{number}": f"{number}" for number in range(20)})

    async def together() -> list[dict[str, Any]]:
        blocks = ({"id": f"t{n}", "name": "read_file", "input": {"path": f"/repo/{n}"}} for n in range(20))
        return await asyncio.gather(*(arun_anthropic(tools, block) for block in blocks))

    answers = asyncio.run(together())
    assert [json.loads(one["content"])["content"] for one in answers] == [f"{n}" for n in range(20)]


def test_the_schemas_are_valid_and_take_what_the_tools_take(world: World) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="by design: a second opinion where it is installed")
    tools = world.toolset()
    for definition in anthropic_tools(tools):
        jsonschema.Draft202012Validator.check_schema(definition["input_schema"])
    for definition in openai_tools(tools):
        jsonschema.Draft202012Validator.check_schema(definition["function"]["parameters"])
