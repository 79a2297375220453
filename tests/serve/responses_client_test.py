#!/usr/bin/env python3
"""Runs `tensora serve` and uses tools, parse() and responses of the Python package `openai`."""
import json

from client_server import KEY, WEATHER, ClientTest, main

STORY = [{"role": "user", "content": "Once upon a time"}]
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
TOOL = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": True}


class ResponsesClient(ClientTest):
    @classmethod
    def connect(cls):
        import openai
        cls.openai = openai
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key=KEY, max_retries=0)

    def options(self, **more):
        return {"model": "stories260K", "input": "Once upon a time", "max_output_tokens": 40,
                "temperature": 0, **more}

    def streamed(self, **more):
        with self.client.responses.stream(**self.options(**more)) as stream:
            for _ in stream:
                pass
            return stream.get_final_response()

    def test_stream_is_the_response(self):
        whole = self.client.responses.create(**self.options())
        self.assertTrue(whole.output_text)
        created = list(self.client.responses.create(stream=True, **self.options()))
        self.assertEqual([event.sequence_number for event in created], list(range(len(created))))
        text = "".join(e.delta for e in created if e.type == "response.output_text.delta")
        self.assertEqual(text, whole.output_text)
        self.assertEqual(created[-1].response.usage.output_tokens, whole.usage.output_tokens)

    def test_stream_helper(self):
        final = self.streamed(max_output_tokens=400, text={"format": {
            "type": "json_schema", "name": "weather", "schema": WEATHER, "strict": True}})
        self.check_weather(json.loads(final.output_text))

    def test_tools(self):
        more = {"tools": [TOOL, {"type": "web_search"}], "tool_choice": "required",
                "max_output_tokens": 300}
        whole = self.client.responses.create(**self.options(**more))
        calls = [item for item in whole.output if item.type == "function_call"]
        self.check_weather(json.loads(calls[0].arguments))
        final = self.streamed(**more)
        self.assertEqual([c.arguments for c in final.output if c.type == "function_call"],
                         [c.arguments for c in calls])
        items = [{"role": "user", "content": "Hi"}, *[c.model_dump() for c in calls],
                 *[{"type": "function_call_output", "call_id": c.call_id, "output": "sunny"}
                   for c in calls]]
        self.client.responses.create(**self.options(input=items, tools=[TOOL]))

    def test_chat_tools(self):
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            options = {"model": "stories260K", "messages": STORY, "tools": [CHAT_TOOL],
                       "tool_choice": choice, "max_tokens": 300, "temperature": 0,
                       "parallel_tool_calls": False}
            whole = self.client.chat.completions.create(**options)
            self.assertEqual(whole.choices[0].finish_reason, "tool_calls")
            call, = whole.choices[0].message.tool_calls
            self.check_weather(json.loads(call.function.arguments))
            arguments = ""
            for chunk in self.client.chat.completions.create(stream=True, **options):
                for delta in chunk.choices[0].delta.tool_calls or []:
                    self.assertEqual(delta.index, 0)
                    arguments += delta.function.arguments or ""
            self.assertEqual(arguments, call.function.arguments)

    def test_no_calls(self):
        answer = self.client.chat.completions.create(
            model="stories260K", messages=STORY, tools=[CHAT_TOOL], tool_choice="none", max_tokens=20)
        self.assertIsNone(answer.choices[0].message.tool_calls)

    def test_parse(self):
        try:
            import pydantic
        except ImportError:
            self.skipTest("pydantic is not installed")

        class Person(pydantic.BaseModel):
            happy: bool
            age: int
            mood: "str | None"

        answer = self.client.chat.completions.parse(
            model="stories260K", messages=STORY, response_format=Person, max_tokens=400,
            temperature=0, frequency_penalty=2)
        if answer.choices[0].finish_reason == "stop":
            self.assertIsInstance(answer.choices[0].message.parsed, Person)

    def test_errors(self):
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.client.responses.create(**self.options(previous_response_id="resp_1"))
        self.assertEqual(caught.exception.param, "previous_response_id")
        bad = dict(WEATHER, unevaluatedProperties=False)
        with self.assertRaises(self.openai.BadRequestError) as caught:
            self.client.responses.create(**self.options(tools=[dict(TOOL, parameters=bad)]))
        self.assertIn("tools[0].parameters: the keyword unevaluatedProperties", str(caught.exception))


if __name__ == "__main__":
    main("openai")
