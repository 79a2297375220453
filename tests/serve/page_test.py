#!/usr/bin/env python3
"""Uses the chat page of `tensora serve` in Chromium as a person does: every feature, the checks of
axe-core, an empty console. Ends with status 77 where Chromium, Selenium or the model is absent.

page_test.py TENSORA [--shots FOLDER]
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import tempfile
import time

from page_driver import MODEL, ActionChains, Keys, Page, Server, skip

KEY = "a-key-for-the-page"
TREE = {  # what the model cannot write: a table, code, reasoning, calls
    "format": "tensora-conversations",
    "version": 1,
    "conversations": [
        {
            "id": "c1",
            "title": "Rich text",
            "created": 1,
            "updated": 2,
            "system": "Be brief.",
            "leaf": "m4",
            "messages": [
                {
                    "id": "m1",
                    "conversation": "c1",
                    "parent": "",
                    "role": "user",
                    "content": "A table, please",
                    "created": 1,
                },
                {
                    "id": "m2",
                    "conversation": "c1",
                    "parent": "m1",
                    "role": "assistant",
                    "created": 2,
                    "model": "stories",
                    "reasoning": "They want a *table*.",
                    "finish": "tool_calls",
                    "calls": [{"id": "call_1", "name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}],
                    "content": "# Plan\n\n1. one\n2. two\n   - deep\n\n| a | b |\n|:--|--:|\n| 1 | `2` |\n\n"
                    "```python\ndef f(x):\n    return \"s\"  # why\n```\n\n"
                    "[good](https://example.com) [bad](javascript:alert(1)) <img src=x onerror=alert(1)>\n\n"
                    "![remote](https://example.com/x.png)\n\n> **quoted**\n",
                },
                {
                    "id": "m3",
                    "conversation": "c1",
                    "parent": "m2",
                    "role": "tool",
                    "name": "get_weather",
                    "call": "call_1",
                    "content": "{\"degrees\": 21}",
                    "created": 3,
                },
                {
                    "id": "m4",
                    "conversation": "c1",
                    "parent": "m3",
                    "role": "assistant",
                    "content": "It is mild.",
                    "created": 4,
                },
            ],
        }
    ],
}


def test_chat(page, url):
    page.driver.get(url)
    page.until("the model", lambda: page.one("#model").get_property("value"))
    page.set(set_max_completion_tokens="24", set_seed="7", set_temperature="0.8")
    page.ask("Once upon a time")
    first = page.texts("assistant")[-1]
    assert first, "an answer has text"
    stats = page.one("#log .assistant .stats").text
    for part in (
        r"tokens/s",
        r"first token [\d.]+ m?s",
        r"24 tokens",
        r"\d+ / \d+|in context",
        r"\d+ cached",
        "cut off",
    ):
        assert re.search(part, stats), (part, stats)
    assert page.one("#title").text == "Once upon a time"
    request = page.one("[aria-label='Show the request']")
    request.click()
    sent = json.loads(page.one("#raw-text").text)
    assert (
        sent["seed"] == 7 and sent["stream"] and sent["messages"][-1]["content"] == "Once upon a time"
    ), sent
    page.one("#raw [value=close]").click()
    assert page.one("#live").get_attribute("aria-live") == "polite"
    said = [node.get_attribute("textContent") for node in page.all("#live p")]
    assert said[-1] == "The answer is complete" and len(said) < 24, said


def test_stop(page):
    page.set(set_max_completion_tokens="400", set_seed="8")
    page.ask("Tell me a long story", waits=False)
    page.until("some text", lambda: len(page.texts("assistant")[-1]) > 3)
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    page.idle()
    assert page.until(
        "the mark",
        lambda: "stopped" in page.all("#log .assistant")[-1].text
        or "cut off" in page.all("#log .assistant")[-1].text,
    )
    page.set(set_max_completion_tokens="16", set_seed="")
    page.one("#input").send_keys("two", Keys.SHIFT, Keys.ENTER, Keys.NULL, "lines")
    assert page.one("#input").get_property("value") == "two\nlines"
    page.run("document.getElementById('input').value = ''")


def test_branches(page):
    page.one("#new").click()
    page.ask("The dog")
    for count in (2, 3):
        page.one("[aria-label=Regenerate]").click()
        page.until("another version", lambda: f"{count}/{count}" in page.one("#log .assistant .actions").text)
        page.idle()
    last = page.texts("assistant")[-1]
    page.one("#log .assistant [aria-label='Previous version']").click()
    assert "2/3" in page.one("#log .assistant .actions").text
    page.one("#log .assistant [aria-label='Next version']").click()
    assert page.texts("assistant")[-1] == last
    page.one("#log .user [aria-label=Edit]").click()
    area = page.one("#log .user textarea")
    area.clear()
    area.send_keys("Some quokka")
    page.one("#log .user .button.main").click()
    page.until("the edited question", lambda: page.texts("user") == ["Some quokka"])
    page.idle()
    assert "2/2" in page.one("#log .user .actions").text
    page.one("#log .user [aria-label='Previous version']").click()
    page.until(
        "the first branch",
        lambda: page.texts("user") == ["The dog"] and "3/3" in page.one("#log .assistant .actions").text,
    )
    page.one("#log .assistant [aria-label=Edit]").click()
    page.one("#log .assistant textarea").send_keys(" END")
    page.one("#log .assistant .button.main").click()
    page.until("the edited answer", lambda: page.texts("assistant")[-1].endswith("END"))


def test_list(page):
    page.driver.refresh()
    page.until("the stored conversations", lambda: len(page.all("#list .open")) == 2)
    page.one("#list .open").click()
    page.until("its messages", lambda: page.texts("user") == ["The dog"])
    ActionChains(page.driver).key_down(Keys.CONTROL).send_keys("k").key_up(Keys.CONTROL).perform()
    assert page.driver.switch_to.active_element.get_attribute("id") == "search"
    page.one("#search").send_keys("some quokka")  # stands in a branch that is not shown
    page.until(
        "one match", lambda: len(page.all("#list .open")) == 1 and "Some quokka" in page.one("#list mark").text
    )
    page.one("#search").send_keys(Keys.ESCAPE)
    page.until("all again", lambda: len(page.all("#list .open")) == 2)
    page.menu("rename")
    field = page.one("#list li input")
    field.send_keys(Keys.CONTROL, "a", Keys.NULL, "Animals", Keys.ENTER)
    page.until("the new name", lambda: page.one("#title").text == "Animals")


def test_files(page):
    page.take_in(TREE)
    page.until("the conversation", lambda: len(page.all("#list .open")) == 3)
    page.one("#export-all").click()
    before = json.loads(page.downloaded("tensora-conversations.json"))
    assert len(before["conversations"]) == 3
    page.take_in(before)  # the same again changes nothing
    page.until("the notice", lambda: "0 conversations" in page.one("#hint").text)
    for left in (2, 1, 0):
        page.run("document.querySelector('#list [aria-label^=Delete]').click()")
        page.one("#ask-yes").click()
        page.until("it is gone", lambda: len(page.all("#list .open")) == left)
    page.take_in(before)
    page.until("all again", lambda: len(page.all("#list .open")) == 3)
    page.one("#export-all").click()
    after = json.loads(page.downloaded("tensora-conversations.json"))
    order = lambda tree: sorted(tree["conversations"], key=lambda one: one["id"])
    assert order(before) == order(after), "a round trip keeps everything"
    page.take_in("{\"format\": \"other\"}")
    page.until("the complaint", lambda: "not an export" in page.one("#hint").text)
    page.open("Rich text")
    page.until("the usual hint", lambda: page.one("#hint").text.startswith("Enter"))
    page.menu("markdown")
    text = page.downloaded("Rich-text.md")
    assert text.startswith("# Rich text\n\n## System\n\nBe brief.\n\n## You\n\nA table, please"), text
    assert "| 1 | `2` |" in text and "It is mild." in text and "get_weather" in text


def test_markdown(page):
    for selector in (
        "h3",
        "ol > li > ul > li",
        "table th.right",
        "table td code",
        "pre code .kw",
        "pre code .str",
        "pre code .com",
        "blockquote strong",
        "a[href='https://example.com'][rel='noopener noreferrer']",
    ):
        assert page.all("#log .md " + selector), selector
    assert (
        not page.all("#log img") and not page.all("#log [href^=javascript]") and not page.all("#log script")
    )
    assert "<img src=x onerror=alert(1)>" in page.one("#log .assistant .md:not(.fold .md)").text
    folds = page.all("#log details.fold")
    assert len(folds) == 3 and not any(
        fold.get_property("open") for fold in folds
    ), "reasoning, call and result are folded"
    folds[0].click()
    assert "They want a table." in folds[0].text
    # A text that grows letter by letter ends as the text built at once, however it is cut.
    texts = [
        TREE["conversations"][0]["messages"][1]["content"],
        "- a\n\n- b\n  - c\n\ntext",
        "```\nopen *fence",
        "a | b\n--|--\n1|2\nend",
        "> q\nlazy\n\n~~~js\nlet x = `1`\n~~~\n***both*** _a_b_ \\* **open",
        "1. x\n\n   y\n2. z\n# h",
        "text\n***both***\n\ntext\n```in```line\n--- a",
        "```py\na = 1\n``\n\n# b\n```\nend",
    ]
    differ = page.run(
        """return arguments[0].filter((text) => {
             const whole = document.createElement('div'), grown = document.createElement('div');
             new GrowingText(whole).set(text);
             const growing = new GrowingText(grown);
             for (let i = 1; i <= text.length; i++) growing.set(text.slice(0, i));
             return !whole.isEqualNode(grown);
           });""",
        texts,
    )
    assert not differ, differ
    slow = page.run("""
      const begin = performance.now();
      for (const part of ['*', '[', '`', '_a', '> ', '- '])
        new GrowingText(document.createElement('div')).set(part.repeat(10000) + 'a');
      return performance.now() - begin;""")
    assert slow < 3000, f"{slow} ms for texts made to be slow"


# A stream that the page reads as if it came from the server.
STUB = """
  const real = window.fetch, lines = arguments[0];
  window.fetch = async (path, options) => {
    if (path !== '/v1/chat/completions') return real(path, options);
    window.sent = JSON.parse(options.body);
    window.fetch = real;
    return new Response(new ReadableStream({start(out) {
      const events = [...lines.map((line) => JSON.stringify(line)), '[DONE]'];
      const bytes = new TextEncoder().encode(events.map((event) => 'data: ' + event + '\\n\\n').join(''));
      for (let i = 0; i < bytes.length; i += 7) out.enqueue(bytes.slice(i, i + 7));  // splits letters
      out.close();
    }}), {headers: {'content-type': 'text/event-stream'}});
  };"""


def chunk(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def test_tools(page):
    page.one("#new").click()
    page.run(
        STUB,
        [
            chunk({"reasoning_content": "Häm, "}),
            chunk({"reasoning_content": "weather."}),
            chunk(
                {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": "{\"x\":"}}]}
            ),
            chunk({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "two", "arguments": "{}"}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
            chunk({}, "tool_calls"),
        ],
    )
    page.ask("Use the tools")
    folds = page.until(
        "three folds", lambda: len(page.all("#log details.fold")) == 3 and page.all("#log details.fold")
    )
    assert [fold.text for fold in folds] == ["Reasoning", "Call of one", "Call of two"]
    page.run(STUB, [chunk({"content": "Done – ünïcode."}), chunk({}, "stop")])
    for area, text in zip(page.all("#log .assistant form textarea"), ("11", "22")):
        area.send_keys(text)
    page.one("#log .assistant form button").click()
    page.until("the answer", lambda: page.texts("assistant")[-1] == "Done – ünïcode.")
    roles = [
        (m["role"], m.get("tool_call_id"), m["content"]) for m in page.run("return window.sent.messages")
    ]
    assert roles == [
        ("user", None, "Use the tools"),
        ("assistant", None, None),
        ("tool", "a", "11"),
        ("tool", "b", "22"),
    ], roles
    page.run(STUB, [chunk({"content": "half"}), {"error": {"message": "it broke"}}])
    page.ask("Again")
    assert page.until("the error", lambda: "it broke" in page.texts("assistant")[-1])


def test_system_prompt(page):
    page.one("#new").click()
    page.set(system="You are a pirate.", set_extra="{\"top_k\": 5}")
    page.ask("Hello")
    page.one("[aria-label='Show the request']").click()
    sent = json.loads(page.one("#raw-text").text)
    assert (
        sent["messages"][0] == {"role": "system", "content": "You are a pirate."} and sent["top_k"] == 5
    ), sent
    page.one("#raw [value=close]").click()
    page.one("#open-settings").click()
    page.one("#set-extra").clear()
    page.one("#set-extra").send_keys("[1")
    page.one("#settings [value=save]").click()
    assert "not JSON" in page.one("#extra-wrong").text
    page.one("#settings [data-close]").click()
    page.set(set_extra="")


def test_plots(page):
    page.one("#toggle-plots").click()
    page.until("the speed", lambda: "tokens/s" in page.one("#plot-speed p").text)
    assert "running" in page.one("#plot-batch p").text and "KV cache" in page.one("#plot-memory p").text
    assert "0 B" != page.one("#plot-memory p").text.split(",")[0], "the server tells its memory"
    page.ask("A plot")
    page.until(
        "a curve",
        lambda: page.run(
            "return document.querySelector('#plot-speed path.line').getAttribute('d').split('L').length"
        )
        > 2,
    )


def test_looks(page, shots):
    def shot(name):
        if shots:
            page.driver.save_screenshot(str(shots / (name + ".png")))

    page.open("Rich text")
    for width, height in ((1280, 800), (390, 844)):
        page.size(width, height)
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            time.sleep(0.3)
            page.check_accessibility((width, scheme))
            shot(f"{width}-{scheme}")
            wide = page.run("return document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels at a width of {width}"
    page.one("#show-side").click()
    page.until("the drawer", lambda: page.one("#new").is_displayed())
    time.sleep(0.3)
    page.check_accessibility("drawer")
    shot("390-drawer")
    ActionChains(page.driver).send_keys(Keys.ESCAPE).perform()
    page.size(1280, 800)
    page.one("#open-settings").click()
    page.check_accessibility("settings")
    shot("settings-dark")
    page.one("#settings [data-close]").click()
    page.one("#theme").click()
    assert page.run("return document.documentElement.dataset.theme") == "light"
    page.scheme("light")


def test_many_messages(page):
    long = (
        "Text with **bold** and `code`.\n\n"
        + "A long paragraph of words. " * 60
        + "\n\n```cpp\n"
        + "int x = 1;  // one\n" * 20
        + "```\n"
    )
    nodes = [
        {
            "id": f"n{i}",
            "conversation": "big",
            "parent": f"n{i - 1}" if i else "",
            "created": i,
            "role": "assistant" if i % 2 else "user",
            "content": long,
        }
        for i in range(500)
    ]
    page.take_in(
        {
            "format": "tensora-conversations",
            "version": 1,
            "conversations": [
                {
                    "id": "big",
                    "title": "Big",
                    "created": 1,
                    "updated": 3,
                    "system": "",
                    "leaf": "n499",
                    "messages": nodes,
                }
            ],
        }
    )
    page.until("it is there", lambda: "Big" in page.one("#list").text)
    page.open("Big")
    worst = page.driver.execute_async_script("""
      const done = arguments[0], gaps = [], box = document.getElementById('scroll');
      let last = performance.now(), count = 0;
      const turn = () => {
        const now = performance.now();
        gaps.push(now - last);
        last = now;
        box.scrollTop = box.scrollHeight * (1 - count / 60);
        if (count++ < 60) requestAnimationFrame(turn);
        else done(gaps.sort((a, b) => a - b)[Math.floor(gaps.length * 0.9)]);
      };
      requestAnimationFrame(turn);""")
    assert worst < 250, f"9 of 10 frames took up to {worst} ms"
    typed = page.run("""
      const input = document.getElementById('input'), begin = performance.now();
      for (let i = 0; i < 50; i++) {
        input.value += 'a';
        input.dispatchEvent(new Event('input'));
        input.offsetHeight;
      }
      input.value = ''; return (performance.now() - begin) / 50;""")
    assert typed < 20, f"{typed} ms per letter"


def test_server_down(page, server, program):
    server.stop()
    page.one("#input").send_keys("Are you there?", Keys.ENTER)
    page.until("the banner", lambda: page.one("#offline").is_displayed())
    page.idle()
    assert "cannot be reached" in page.texts("assistant")[-1]
    page.open("Rich text")
    page.until(
        "a conversation while the server is down", lambda: "It is mild." in page.texts("assistant")[-1]
    )
    page.check_accessibility("offline")
    page.check_console("net::ERR|Failed to load resource")
    again = Server(program, port=server.port)
    page.until("the server is back", lambda: not page.one("#offline").is_displayed(), 40)
    page.check_console("net::ERR|Failed to load resource")
    return again


def test_key(page, program):
    with tempfile.NamedTemporaryFile("w", suffix=".key") as file:
        file.write(KEY + "\n")
        file.flush()
        server = Server(program, "--api-keys", file.name)
        try:
            page.driver.get(server.url)
            page.until("the question", lambda: page.one("#key-value").is_displayed())
            page.check_accessibility("key")
            page.one("#key-value").send_keys("wrong", Keys.ENTER)
            page.until(
                "the question again",
                lambda: page.one("#key-value").is_displayed()
                and not page.one("#key-value").get_property("value"),
            )
            page.one("#key-value").send_keys(KEY, Keys.ENTER)
            page.until("the model", lambda: page.one("#model").get_property("value"))
            page.set(set_max_completion_tokens="4")
            page.ask("Hi")
            assert page.texts("assistant")[-1]
            page.check_console("401")
        finally:
            server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--shots", type=pathlib.Path)
    arguments = parser.parse_args()
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        skip("Chromium or its driver is not installed")
    if not MODEL.exists():
        skip(f"{MODEL.name} is not there")
    program = os.path.abspath(arguments.program)
    if arguments.shots:
        arguments.shots.mkdir(parents=True, exist_ok=True)
    server = Server(program)
    with tempfile.TemporaryDirectory() as folder:
        page = Page(folder)
        try:
            test_chat(page, server.url)
            for test in (
                test_stop,
                test_branches,
                test_list,
                test_files,
                test_markdown,
                test_tools,
                test_system_prompt,
                test_plots,
            ):
                test(page)
                page.check_console()
                print(test.__name__, "passed", flush=True)
            test_looks(page, arguments.shots)
            test_many_messages(page)
            page.check_console()
            server = test_server_down(page, server, program)
            test_key(page, program)
        finally:
            page.driver.quit()
            server.stop()
    print("the page passed")


if __name__ == "__main__":
    main()
