"""Writes goldens.json: what Jinja itself, with Hugging Face's settings, makes of the templates here.

Needs jinja2: python3 make_goldens.py
"""
import datetime
import json
import pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1699963200  # noon of 14 November 2023, UTC


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                            extensions=[Generation, jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)

CALL = {"id": "call56789", "type": "function",
        "function": {"name": "weather", "arguments": {"city": "Zürich", "days": 2}}}
SYSTEM = {"role": "system", "content": " Be brief. "}
USER = {"role": "user", "content": "Hello,\nworld <b>\"é\"</b> "}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHi 😀"}
CALLS = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "{\"t\": 21.5}", "tool_call_id": "call56789"}
PARTS = {"role": "user", "content": [{"type": "text", "text": " see "}, {"type": "image"}]}
TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "of a 'city'",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
CONVERSATIONS = [[USER], [SYSTEM, USER, ANSWER, USER], [USER, CALLS, RESULT],
                 [SYSTEM, USER, CALLS, RESULT, RESULT, ANSWER, USER], [PARTS], [ANSWER, USER]]


def main():
    folder = pathlib.Path(__file__).parent
    goldens = []
    for path in sorted(folder.glob("*.jinja")):
        template = environment.from_string(path.read_text(encoding="utf-8"))
        for number, messages in enumerate(CONVERSATIONS):
            options = {"tools": TOOLS if number in (2, 3) else None,
                       "add_generation_prompt": number != 1,
                       "variables": {"enable_thinking": False} if number == 0 else {}}
            try:
                out = {"text": template.render(
                    messages=messages, tools=options["tools"], documents=None, bos_token="<s>",
                    eos_token="</s>", add_generation_prompt=options["add_generation_prompt"],
                    **options["variables"])}
            except jinja2.TemplateError as error:
                out = {"error": str(error)}
            except TypeError:
                out = {"error": ""}
            goldens.append({"template": path.name, "messages": messages, **options, **out})
    text = json.dumps(goldens, ensure_ascii=False, indent=0)
    (folder / "goldens.json").write_text(text + "\n", encoding="utf-8")


main()
