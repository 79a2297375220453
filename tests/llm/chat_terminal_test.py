"""`tensora chat` on a terminal: editing, history, confirmations. Usage: chat_terminal_test.py PROGRAM"""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

MODEL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260K.gguf"
LEFT, RIGHT, UP, DOWN, HOME, END, DELETE = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[3~"

EDITING = "\x1b[?2004h"  # switches bracketed paste on


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, program, *words):
        self.master, slave = pty.openpty()
        self.normal = termios.tcgetattr(slave)
        self.slave = slave
        environment = dict(os.environ, TERM="xterm")
        self.process = subprocess.Popen([program, *words], stdin=slave, stdout=slave, stderr=slave, env=environment,
                                        start_new_session=True)
        self.seen = ""

    def wait_for(self, text, seconds=30):
        """Reads until `text` was printed; forgets what came up to its end."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.master], [], [], left)[0], f"no {text!r} in {self.seen!r}"
            self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, keys):
        os.write(self.master, keys.encode())

    def say(self, keys):
        """Types a line, once the program edits one."""
        self.wait_for(EDITING)
        self.type(keys + "\r")

    def is_normal(self):
        return termios.tcgetattr(self.slave)[3] == self.normal[3]


def history_of(program, template, *lines):
    """What the model was told, after these lines were typed."""
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "saved.json")
        terminal = Terminal(program, "chat", str(MODEL), "-n", "2", "--temp", "0", "--template", template)
        for line in (*lines, f"/save {saved}", "/bye"):
            terminal.say(line)
        assert terminal.process.wait(30) == 0
        assert terminal.is_normal()
        with open(saved, encoding="utf-8") as file:
            return [message["content"] for message in json.load(file) if message["role"] == "user"]


def test_editing(program, template):
    typed = history_of(
        program, template,
        "world" + HOME + "hello " + END + "!",
        "abd" + LEFT + "c",
        "xay" + LEFT * 2 + "\x7f" + END + "\x7f" + "b",
        "two words\x17lines",
        "over\x15anew" + HOME + DELETE,
        "käse" + LEFT * 3 + "\x7f" + "K",
        "日本" + LEFT + "x",
        "\x1b[200~a\nb\x1b[201~",
        "long " * 60 + HOME + "very ",
        "stop\x1aped",  # without a shell to go back to, the program goes on at once
    )
    assert typed == ["hello world!", "abcd", "ab", "two lines", "new", "Käse", "日x本", "a\nb",
                     "very " + "long " * 60, "stopped"], typed


def test_history(program, template):
    typed = history_of(program, template, "first", "second", UP + UP + "!", "draft" + UP + DOWN + "s", UP + UP)
    assert typed == ["first", "second", "first!", "drafts", "first!"], typed


def test_questions(program, template):
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "saved.json")
        with open(saved, "w", encoding="utf-8") as file:
            file.write("precious")
        terminal = Terminal(program, "chat", str(MODEL), "-n", "2", "--template", template)
        terminal.say("hello")
        terminal.say("/save " + saved)
        terminal.say("n")
        terminal.wait_for("replace it? [y/N] ")
        terminal.say("/clear")
        terminal.say("")
        terminal.wait_for("forget 2 messages? [y/N] ")
        terminal.say("/history")
        terminal.wait_for("[user] hello")
        with open(saved, encoding="utf-8") as file:
            assert file.read() == "precious"
        terminal.say("/save " + saved)
        terminal.say("y")
        terminal.say("/clear")
        terminal.say("y")
        terminal.say("/history")
        assert "[user]" not in terminal.wait_for(EDITING)
        terminal.type("\x04")
        assert terminal.process.wait(30) == 0
        with open(saved, encoding="utf-8") as file:
            assert "hello" in file.read()


def test_signals(program, template):
    terminal = Terminal(program, "chat", str(MODEL), "--template", template)
    terminal.wait_for(EDITING)
    terminal.type("half a line\x03")
    terminal.wait_for("(/bye or Ctrl-D leaves)")
    terminal.wait_for(EDITING)
    assert not terminal.is_normal()
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(30) == -signal.SIGTERM
    assert terminal.is_normal()


def main():
    if not MODEL.exists():
        print(f"skipped: {MODEL} is not there")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        template = os.path.join(folder, "plain.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write("{% for m in messages %}{{ m.content }}{% endfor %}")
        for test in (test_editing, test_history, test_questions, test_signals):
            test(os.path.abspath(sys.argv[1]), template)
            print(f"{test.__name__}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
