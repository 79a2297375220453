#!/usr/bin/env python3
"""Runs `tensora pull` against a server on this machine that breaks off, forgets ranges, changes its
file, sends wrong bytes, redirects and fails. Ends with status 77 where the program has no libcurl.
"""
import argparse
import hashlib
import http.server
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time


def text(string):
    return struct.pack("<Q", len(string)) + string.encode()


def small_gguf():
    """The shortest file that ModelFile opens, with a tensor of 2^18 numbers."""
    info = text("token_embd.weight") + struct.pack("<IQQIQ", 2, 512, 512, 0, 0)
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama") + info
    head += bytes(-len(head) % 32)
    return head + bytes(i * 7 & 255 for i in range(4 << 18))


FILE = small_gguf()
SUM = hashlib.sha256(FILE).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """What `Handler.plan` says for each request in turn; the last entry holds for the rest."""
    plan, seen, pause = [{}], [], threading.Event()

    def do_GET(self):
        step = Handler.plan.pop(0) if len(Handler.plan) > 1 else Handler.plan[0]
        Handler.seen.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
        if "status" in step:
            return self.send_error(step["status"])
        if "to" in step:
            self.send_response(302)
            self.send_header("Location", step["to"])
            self.send_header("X-Linked-Etag", f'"{step.get("sum", SUM)}"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        data, tag = step.get("data", FILE), step.get("tag", '"one"')
        start, asked = 0, self.headers.get("Range")
        same = step.get("any_version") or self.headers.get("If-Range", tag) == tag
        if asked and not step.get("no_ranges") and same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start > 0 and start >= len(data):
            return self.send_error(416)
        unasked = step.get("unasked", 0)  # the length of a part that is sent instead of the whole
        self.send_response(206 if start or unasked else 200)
        self.send_header("ETag", tag)
        if "type" in step:
            self.send_header("Content-Type", step["type"])
        if start or unasked:
            end = unasked or len(data)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        if "no_length" not in step:
            self.send_header("Content-Length", str((unasked or len(data)) - start))
        self.end_headers()
        if unasked:
            data = data[:unasked]
        try:
            self.wfile.write(data[start:step.get("until", len(data))])
            self.wfile.flush()
        except ConnectionError:  # the program has read enough to refuse the rest
            pass
        Handler.pause.wait(step.get("wait", 0))
        self.close_connection = True

    def log_message(self, *_):
        pass


class Test:
    def __init__(self, program, folder, address):
        self.program, self.folder, self.address = program, folder, address

    def pull(self, plan, *arguments, fails=None, name="model.gguf"):
        """What the command says. It must leave FILE, or fail with a message and leave nothing."""
        Handler.plan, Handler.seen = list(plan), []
        path = self.folder / name
        result = subprocess.run(
            [self.program, "pull", f"{self.address}/{name}", "--out", str(path), *arguments],
            text=True, capture_output=True)
        if fails is None:
            assert result.returncode == 0, result.stderr
            assert result.stdout == f"{path}\n", result.stdout
            contents = path.read_bytes()
            path.unlink()
            assert not list(self.folder.iterdir()), list(self.folder.iterdir())
            assert contents == FILE, "the file is not what the server has"
        else:
            assert result.returncode == 1 and fails in result.stderr, (fails, result.stderr)
            assert not path.exists()
        return result.stderr

    def kill(self, plan, at_least):
        """Kills a download of which some bytes have arrived; what it has left behind."""
        Handler.plan, Handler.seen = list(plan), []
        path, part = self.folder / "model.gguf", self.folder / "model.gguf.part"
        program = subprocess.Popen([self.program, "pull", f"{self.address}/model.gguf", "--out",
                                    str(path), "--quiet"], stderr=subprocess.DEVNULL)
        while not part.exists() or part.stat().st_size < at_least:
            assert program.poll() is None, "it ended by itself"
            time.sleep(0.01)
        program.kill()
        program.wait()
        Handler.pause.set()
        assert not path.exists()

    def fill_disk(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
        result = subprocess.run([self.program, "pull", f"{self.address}/model.gguf", "--out",
                                 str(self.folder / "model.gguf")], text=True, capture_output=True,
                                preexec_fn=limit)
        assert result.returncode == 1 and "File too large" in result.stderr, result
        assert not (self.folder / "model.gguf").exists()

    def clean(self):
        for path in self.folder.iterdir():
            path.unlink()


def run(test):
    half = len(FILE) // 2
    assert "compared with nothing" in test.pull([{}])
    test.pull([{}], "--sha256", SUM)
    test.pull([{}], "--sha256", SUM.upper(), "--quiet")
    # A connection that breaks is continued, more than once.
    test.pull([{"until": half}, {"until": half + 999}, {}])
    assert [s[1] for s in Handler.seen] == [None, f"bytes={half}-", f"bytes={half + 999}-"], Handler.seen
    assert Handler.seen[1][2] == '"one"'
    test.pull([{"until": half}, {"no_ranges": True}])
    test.pull([{"until": half, "data": FILE[::-1]}, {"tag": '"two"'}])  # another file by now
    test.pull([{"status": 503}, {"status": 429}, {}])
    # A later run goes on where an earlier one gave up.
    said = test.pull([{"until": half}, {"status": 404}], fails="the server answered 404")
    assert f"goes on after the {half} bytes" in said, said
    assert (test.folder / "model.gguf.part").stat().st_size == half
    assert "continued" in test.pull([{}])
    assert Handler.seen[0][1] == f"bytes={half}-"
    # So it does after one that was killed, and after one for which the disk was too small.
    test.kill([{"until": half, "wait": 60}], half // 2)
    test.pull([{}], "--sha256", SUM)
    Handler.plan = [{}]
    test.fill_disk()
    test.pull([{}], "--sha256", SUM)
    # Too much is there: it was another file.
    (test.folder / "model.gguf.part").write_bytes(FILE + b"more")
    (test.folder / "model.gguf.part.etag").write_text(f"one\n{test.address}/model.gguf\n")
    test.pull([{}])
    # Redirects; the first answer names the checksum.
    said = test.pull([{"to": "/elsewhere"}, {}])
    assert "compared with nothing" not in said and Handler.seen[1][0] == "/elsewhere"
    test.pull([{"to": "/elsewhere", "sum": "0" * 64}, {}], fails="the SHA-256 must be 0000")
    assert not list(test.folder.iterdir())
    test.pull([{"to": "/again"}], fails="redirects")
    test.pull([{}], "--sha256", "1" * 64, fails="the SHA-256 must be 1111")
    test.pull([{}], "--sha256", "123", fails="64 hexadecimal digits")
    test.pull([{"status": 404}], fails="the server answered 404")
    test.clean()


def run_bad_bodies(test):
    """Answers with a good status and a wrong body: nothing of them may get the file's name."""
    half, page = len(FILE) // 2, b"<html>Please log in</html>"
    test.pull([{"data": page, "type": "text/html; charset=utf-8"}], fails="a web page (text/html)")
    test.pull([{"data": page}], fails="does not begin with")
    test.pull([{"data": FILE[:half]}], fails="the file was removed")
    test.pull([{"until": half, "no_length": True}], fails="the file was removed")
    test.pull([{"until": half, "no_length": True}], fails="neither the length", name="model.bin")
    test.pull([{"no_length": True}])
    test.pull([{"unasked": half}], fails="though all of it was asked for")
    test.pull([{"data": b""}], fails="an empty file")
    test.clean()
    # A page instead of the rest: the part that is here stays, and can be continued.
    test.pull([{"until": half}, {"data": page, "type": "text/html", "tag": '"two"'}],
              fails="a web page")
    assert (test.folder / "model.gguf.part").stat().st_size == half
    assert "continued" in test.pull([{}])
    # An empty answer instead of the rest.
    test.pull([{"until": half}, {"data": b"", "tag": '"two"'}], fails="an empty file")


def run_stale_parts(test):
    """A part of another file is not continued, and if it was, all is fetched anew."""
    half = len(FILE) // 2
    part, tag = test.folder / "model.gguf.part", test.folder / "model.gguf.part.etag"
    test.pull([{"until": half, "data": FILE[::-1]}, {"tag": '"two"', "any_version": True}])
    for arguments in [(), ("--sha256", SUM)]:
        part.write_bytes(bytes(half))
        tag.write_text("one\nhttp://localhost/other.gguf\n")
        test.pull([{}], *arguments)
        assert Handler.seen[0][1] is None, Handler.seen
    part.write_bytes(bytes(half))
    test.pull([{}], "--sha256", SUM)
    assert [s[1] for s in Handler.seen] == [f"bytes={half}-", None], Handler.seen
    part.write_bytes(bytes(half))
    tag.write_text(f"one\n{test.address}/model.gguf\n")
    test.pull([{}])


def run_existing_files(test):
    """A file that is there and wrong is fetched anew; one that is right stays; links are not followed."""
    path = test.folder / "model.gguf"
    path.write_bytes(b"<html>Please log in</html>")
    assert "cannot be used" in test.pull([{}])
    path.write_bytes(FILE)
    assert "is there already" in test.pull([{"status": 404}])
    path.write_bytes(FILE[:-1] + b"x")
    assert "the SHA-256 must be" in test.pull([{}], "--sha256", SUM)
    victim = test.folder / "victim"
    for name in ["model.gguf.part", "model.gguf.part.etag"]:
        victim.write_text("precious")
        (test.folder / name).symlink_to(victim)
        test.pull([{}], fails="cannot be written")
        assert victim.read_text() == "precious"
        test.clean()
    Handler.plan, Handler.seen = [{}], []
    result = subprocess.run([test.program, "pull", test.address + "/model.gguf", "--out", str(test.folder)],
                            text=True, capture_output=True)
    assert result.returncode == 2 and "expected the name of a file" in result.stderr, result.stderr
    assert not Handler.seen, "it was fetched before its name was looked at"


def run_by_name(test):
    """A model of the list: the revision and the checksum are pinned."""
    Handler.plan, Handler.seen = [{}], []
    result = subprocess.run([test.program, "pull", "stories15m", "--server", test.address, "--out",
                             str(test.folder / "model.gguf")], text=True, capture_output=True)
    assert result.returncode == 1 and "the SHA-256 must be 66967fbe" in result.stderr, result.stderr
    assert Handler.seen[0][0] == ("/ggml-org/models/resolve/499bc8821c6b12b4e53c5bffcb21ec206f212d81"
                                  "/tinyllamas/stories15M-q4_0.gguf"), Handler.seen
    assert not list(test.folder.iterdir())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    program = parser.parse_args().program
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        address = f"http://127.0.0.1:{server.server_port}"
        probe = subprocess.run([program, "pull", address + "/x", "--out", folder + "/x"], text=True,
                               capture_output=True, env={**os.environ, "no_proxy": "127.0.0.1"})
        if "without libcurl" in probe.stderr:
            print("skipped:", probe.stderr)
            sys.exit(77)
        pathlib.Path(folder, "x").unlink(missing_ok=True)
        os.environ["no_proxy"] = "127.0.0.1"
        test = Test(program, pathlib.Path(folder), address)
        for part in [run, run_bad_bodies, run_stale_parts, run_existing_files, run_by_name]:
            part(test)
    listed = subprocess.run([program, "pull", "--list"], text=True, capture_output=True).stdout
    assert "llama3-1b" in listed, listed
    unknown = subprocess.run([program, "pull", "llama9"], text=True, capture_output=True)
    assert unknown.returncode == 1 and "known are" in unknown.stderr, unknown.stderr
    print("passed")


if __name__ == "__main__":
    main()
