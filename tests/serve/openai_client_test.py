#!/usr/bin/env python3
"""Runs `tensora serve` and talks to it with the Python package `openai`: chat, streaming, logprobs,
embeddings, errors, retries, aborts. Ends with status 77 where the package, the model or the command
is not there.
"""
import argparse
import asyncio
import atexit
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

MODEL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260K.gguf"
KEY = "a-key-of-the-test"
PROGRAM = None


class Server:
    """A server on a free port."""

    def __init__(self, *options):
        command = [PROGRAM, "serve", str(MODEL), "--port", "0", "--no-log", "--quiet", *options]
        environment = dict(os.environ, TENSORA_API_KEY=KEY)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        atexit.register(self.process.kill)  # whatever fails, it does not stay
        line = self.process.stdout.readline()
        assert " at http://" in line, line
        self.url = line.split(" at ")[1].split()[0]

    def client(self, **options):
        import openai
        options.setdefault("api_key", KEY)
        return openai.OpenAI(base_url=self.url + "/v1", **options)

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": "Bearer " + KEY})
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.read().decode()

    def metric(self, name):
        return sum(float(line.split()[-1]) for line in self.get("/metrics").splitlines()
                   if line.startswith(name))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.process.stdout.close()
        return status


STORY = [{"role": "user", "content": "Once upon a time"}]


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--parallel", "8")
        cls.client = cls.server.client()
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def chat(self, **options):
        options = {"model": self.model, "messages": STORY, "max_tokens": 40, "temperature": 0, **options}
        return self.client.chat.completions.create(**options)

    def test_echo_with_logprobs(self):
        """What a text scores as a prompt is what it scored as an answer."""
        def scored(prompt, tokens):
            return self.client.completions.create(model=self.model, prompt=prompt, max_tokens=tokens, temperature=0,
                                                  echo=True, logprobs=2, extra_body={"ignore_eos": True}).choices[0]
        first = scored("Once upon a time", 12)
        again = scored(first.text, 0)
        self.assertEqual(again.text, first.text)
        self.assertIsNone(first.logprobs.token_logprobs[0])
        self.assertEqual(first.logprobs.tokens, again.logprobs.tokens)
        self.assertEqual(first.logprobs.text_offset, again.logprobs.text_offset)
        for one, other in zip(first.logprobs.token_logprobs[1:], again.logprobs.token_logprobs[1:]):
            self.assertAlmostEqual(one, other, places=4)

    def test_continued_message_and_min_tokens(self):
        messages = STORY + [{"role": "assistant", "content": "there was a"}]
        options = {"messages": messages, "extra_body": {"continue_final_message": True, "min_tokens": 40}}
        whole = self.chat(**options)
        self.assertEqual(whole.usage.completion_tokens, 40)
        parts = [chunk.choices[0].delta.content or "" for chunk in self.chat(stream=True, **options)]
        self.assertEqual("".join(parts), whole.choices[0].message.content)

    def test_models(self):
        self.assertEqual(self.model, "stories260K")
        model = self.client.models.retrieve(self.model)
        self.assertEqual((model.id, model.object), (self.model, "model"))

    def test_chat(self):
        answer = self.chat()
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertIn(choice.finish_reason, ("stop", "length"))
        self.assertTrue(choice.message.content)
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        again = self.chat()
        self.assertEqual(again.choices[0].message.content, choice.message.content)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(again.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_a_stream_is_the_whole(self):
        for options in ({}, {"temperature": 1.2, "seed": 5, "n": 3}):
            whole = self.chat(**options)
            texts, reasons, usage = {}, {}, None
            for chunk in self.chat(stream=True, stream_options={"include_usage": True}, **options):
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
                    reasons[choice.index] = choice.finish_reason or reasons.get(choice.index)
            for choice in whole.choices:
                self.assertEqual(texts[choice.index], choice.message.content)
                self.assertEqual(reasons[choice.index], choice.finish_reason)
            self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_the_stream_helper_accumulates(self):
        with self.client.chat.completions.stream(
                model=self.model, messages=STORY, stop=["."], temperature=0) as stream:
            text = "".join(event.delta for event in stream if event.type == "content.delta")
            final = stream.get_final_completion()
        self.assertEqual(text, final.choices[0].message.content)

    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=3, max_tokens=10)
        tokens = answer.choices[0].logprobs.content
        text = b"".join(bytes(token.bytes) for token in tokens).decode()
        self.assertEqual(text.strip(), answer.choices[0].message.content.strip())
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.top_logprobs[0].token, token.token)  # greedy
            self.assertLessEqual(token.logprob, 0)

    def test_stop_and_seed(self):
        text = self.chat().choices[0].message.content
        stop = text[10:13]
        stopped = self.chat(stop=[stop]).choices[0]
        self.assertEqual(stopped.message.content, text[:text.index(stop)])
        self.assertEqual(stopped.finish_reason, "stop")
        one, two = (self.chat(temperature=1.5, seed=11) for _ in range(2))
        self.assertEqual(one.choices[0].message.content, two.choices[0].message.content)
        self.assertEqual(one.choices[0].seed, 11)

    def test_completions(self):
        create = self.client.completions.create
        whole = create(model=self.model, prompt=["Once upon", "The dog"], max_tokens=12, temperature=0)
        self.assertEqual([choice.index for choice in whole.choices], [0, 1])
        parts = ["", ""]
        for chunk in create(model=self.model, prompt=["Once upon", "The dog"], max_tokens=12,
                            temperature=0, stream=True):
            parts[chunk.choices[0].index] += chunk.choices[0].text
        self.assertEqual(parts, [choice.text for choice in whole.choices])
        echo = create(model=self.model, prompt="Once upon", max_tokens=12, temperature=0, echo=True)
        self.assertEqual(echo.choices[0].text, "Once upon" + whole.choices[0].text)
        scored = create(model=self.model, prompt="Once upon", max_tokens=5, temperature=0, logprobs=2)
        self.assertEqual(len(scored.choices[0].logprobs.tokens), 5)

    def test_embeddings(self):
        create = self.client.embeddings.create
        coded = create(model=self.model, input=["a dog", "a cat"])  # the package asks for base64
        plain = create(model=self.model, input=["a dog", "a cat"], encoding_format="float")
        for one, other in zip(coded.data, plain.data):
            self.assertEqual(len(one.embedding), len(other.embedding))
            for a, b in zip(one.embedding, other.embedding):
                self.assertAlmostEqual(a, b, places=6)
            self.assertAlmostEqual(sum(value * value for value in one.embedding), 1, places=4)
        self.assertGreater(coded.usage.prompt_tokens, 0)

    def test_errors(self):
        import openai
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature=5)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 3000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])
        self.assertEqual(caught.exception.param, "messages[0].content[0].type")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.chat(model="gpt-4")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.AuthenticationError):
            self.server.client(api_key="wrong").models.list()

    def test_ignored_fields_are_told(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.model, messages=STORY, max_tokens=2, extra_body={"frobnicate": 1, "top_k": 5})
        self.assertEqual(raw.headers["x-tensora-ignored"], "frobnicate")

    def test_json(self):
        answer = self.chat(max_tokens=200, response_format={"type": "json_schema", "json_schema": {
            "name": "s", "strict": True, "schema": {
                "type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"],
                "additionalProperties": False}}})
        self.assertIsInstance(json.loads(answer.choices[0].message.content)["yes"], bool)

    def test_aborts(self):
        gone = 'tensora_request_cancelled_total{'
        before = self.server.metric(gone)
        for _ in range(3):
            stream = self.chat(stream=True, max_tokens=500, extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()
        for _ in range(100):
            # The engine frees the blocks before its next step, after the answer is closed.
            if (self.server.metric("tensora_open_answers") == 0
                    and self.server.metric("tensora_kv_cache_blocks_used") == 0):
                break
            time.sleep(0.1)
        self.assertEqual(self.server.metric("tensora_open_answers"), 0)
        self.assertEqual(self.server.metric("tensora_kv_cache_blocks_used"), 0)
        self.assertLessEqual(self.server.metric(gone) - before, 3)

    def test_many_at_once(self):
        import openai
        expected = self.chat().choices[0].message.content

        async def one(client):
            text = ""
            async for chunk in await client.chat.completions.create(
                    model=self.model, messages=STORY, max_tokens=40, temperature=0, stream=True):
                text += chunk.choices[0].delta.content or ""
            return text

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key=KEY) as client:
                return await asyncio.gather(*(one(client) for _ in range(32)))

        self.assertEqual(asyncio.run(all_of_them()), [expected] * 32)


class Retries(unittest.TestCase):
    def test_a_full_server_is_asked_again(self):
        import openai
        server = Server("--parallel", "1", "--max-waiting", "0")
        client = server.client(max_retries=0)
        options = {"model": "stories260K", "messages": STORY, "temperature": 0}
        busy = client.chat.completions.create(
            stream=True, max_tokens=500, extra_body={"ignore_eos": True}, **options)
        next(iter(busy))
        try:
            client.chat.completions.create(max_tokens=2, **options)
            was_refused = False  # the other one has ended already
        except openai.RateLimitError as error:
            was_refused = True
            self.assertGreaterEqual(int(error.response.headers["retry-after"]), 1)
        threading.Timer(0.2, busy.close).start()
        patient = server.client(max_retries=5)
        self.assertTrue(patient.chat.completions.create(max_tokens=2, **options).choices)
        busy.close()
        self.assertEqual(server.stop(), 0)
        if not was_refused:
            self.skipTest("the first answer ended before the second was asked for")


def main():
    global PROGRAM
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    PROGRAM, rest = parser.parse_known_args()
    PROGRAM = PROGRAM.program
    if importlib.util.find_spec("openai") is None:
        print("skipped: the Python package openai is not installed")
        return 77
    if not MODEL.exists():
        print(f"skipped: {MODEL.name} is not there")
        return 77
    if subprocess.run([PROGRAM, "serve", "--help"], capture_output=True, check=False).returncode != 0:
        print("skipped: the program was built without the server")
        return 77
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
