#!/usr/bin/env python3
"""Runs `tensora serve` and talks to it with the Python package `ollama`."""
import json

from client_server import KEY, WEATHER, ClientTest, main

STORY = [{"role": "user", "content": "Once upon a time"}]
OPTIONS = {"temperature": 0, "num_predict": 30}


class OllamaClient(ClientTest):
    @classmethod
    def connect(cls):
        import ollama
        cls.ollama = ollama
        cls.client = ollama.Client(cls.server.url, headers={"Authorization": "Bearer " + KEY})

    def chat(self, **more):
        return self.client.chat(**{"model": "stories260K", "messages": STORY, "options": OPTIONS, **more})

    def test_stream_is_the_answer(self):
        whole = self.chat()
        parts = list(self.chat(stream=True))
        self.assertTrue(whole.done)
        self.assertEqual("".join(part.message.content for part in parts), whole.message.content)
        self.assertEqual(parts[-1].eval_count, whole.eval_count)

    def test_generate(self):
        whole = self.client.generate("stories260K", "Once", options=OPTIONS)
        parts = self.client.generate("stories260K", "Once", options=OPTIONS, stream=True)
        self.assertEqual("".join(part.response for part in parts), whole.response)

    def test_format_and_tools(self):
        answer = self.chat(format=WEATHER, options=dict(OPTIONS, num_predict=200))
        self.check_weather(json.loads(answer.message.content))
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}
        self.chat(tools=[tool])

    def test_models(self):
        self.assertEqual(self.client.list().models[0].model, "stories260K")
        self.assertEqual(self.client.ps().models[0].model, "stories260K")
        self.assertIn("completion", self.client.show("stories260K").capabilities)
        self.assertEqual(len(self.client.embed("stories260K", ["a", "b"]).embeddings), 2)

    def test_errors(self):
        for call in (lambda: self.client.show("nobody"), lambda: self.client.pull("stories260K"),
                     lambda: self.chat(options={"temperature": -1})):
            with self.assertRaises(self.ollama.ResponseError):
                call()


if __name__ == "__main__":
    main("ollama")
