#!/usr/bin/env python3
"""Runs `tensora serve` and talks to it with the Python package `anthropic`."""
from client_server import KEY, WEATHER, ClientTest, main

STORY = [{"role": "user", "content": "Once upon a time"}]
TOOLS = [{"name": "get_weather", "description": "The weather", "input_schema": WEATHER}]


class AnthropicClient(ClientTest):
    @classmethod
    def connect(cls):
        import anthropic
        cls.client = anthropic.Anthropic(base_url=cls.server.url, api_key=KEY, max_retries=0)
        cls.anthropic = anthropic

    def options(self, **more):
        return {"model": "stories260K", "max_tokens": 30, "messages": STORY,
                "extra_body": {"temperature": 0}, **more}  # newer packages have no temperature

    def test_message(self):
        message = self.client.messages.create(**self.options())
        self.assertEqual(message.role, "assistant")
        self.assertIn(message.stop_reason, ("end_turn", "max_tokens"))
        self.assertTrue(message.content[0].text)
        self.assertGreater(message.usage.output_tokens, 0)

    def test_stream_is_the_message(self):
        whole = self.client.messages.create(**self.options())
        with self.client.messages.stream(**self.options()) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_tools(self):
        options = self.options(tools=TOOLS, tool_choice={"type": "any"}, max_tokens=300)
        message = self.client.messages.create(**options)
        call = next(block for block in message.content if block.type == "tool_use")
        self.assertEqual((message.stop_reason, call.name), ("tool_use", "get_weather"))
        self.check_weather(call.input)
        with self.client.messages.stream(**options) as stream:
            final = stream.get_final_message()
        streamed = next(block for block in final.content if block.type == "tool_use")
        self.assertEqual(streamed.input, call.input)
        answered = STORY + [
            {"role": "assistant", "content": [block.model_dump() for block in message.content]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id,
                                          "content": "sunny"}]}]
        self.client.messages.create(**self.options(tools=TOOLS, messages=answered))

    def test_count_and_stops(self):
        counted = self.client.messages.count_tokens(model="stories260K", messages=STORY)
        message = self.client.messages.create(**self.options(stop_sequences=["a"]))
        usage = message.usage
        self.assertEqual(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)
        self.assertEqual((message.stop_reason, message.stop_sequence), ("stop_sequence", "a"))

    def test_errors(self):
        with self.assertRaises(self.anthropic.NotFoundError):
            self.client.messages.create(**self.options(model="nobody"))
        with self.assertRaises(self.anthropic.BadRequestError):
            self.client.messages.create(**self.options(extra_body={"temperature": -1}))
        stranger = self.anthropic.Anthropic(base_url=self.server.url, api_key="x", max_retries=0)
        with self.assertRaises(self.anthropic.AuthenticationError):
            stranger.messages.create(**self.options())


if __name__ == "__main__":
    main("anthropic")
