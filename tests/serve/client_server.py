"""What the tests with clients' packages share: a server with the story model."""
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import unittest

MODEL = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260K.gguf"
KEY = "a-key-of-the-test"

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12},
                   "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def skip(why):
    print("skipped:", why)
    sys.exit(77)


class Server:
    """A server on a free port."""

    def __init__(self, program, *options):
        command = [program, "serve", str(MODEL), "--port", "0", "--no-log", "--quiet", *options]
        environment = dict(os.environ, TENSORA_API_KEY=KEY)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        assert " at http://" in line, line
        self.url = line.split(" at ")[1].split()[0]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def main(package):
    """Runs the tests of the calling script, or skips them."""
    if importlib.util.find_spec(package) is None:
        skip("the package " + package + " is not installed")
    if not MODEL.exists():
        skip(str(MODEL) + " is not there")
    program = sys.argv.pop(1)
    if subprocess.run([program, "serve", "--help"], capture_output=True, check=False).returncode != 0:
        skip("the program was built without the server")
    Server.program = program
    unittest.main(module="__main__", argv=sys.argv[:1])


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(Server.program, "--parallel", "4")
        cls.connect()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0

    def check_weather(self, arguments):
        self.assertEqual(set(arguments), {"city", "days"})
        self.assertIsInstance(arguments["city"], str)
        self.assertLessEqual(len(arguments["city"]), 12)
        self.assertIn(arguments["days"], range(1, 8))
