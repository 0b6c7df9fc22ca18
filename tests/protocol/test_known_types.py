"""Types that several threads need for the first time at once."""

import subprocess
import sys

# The more types stand in one another, the longer msgspec works them out; threads take turns as often as they can.
_PROGRAM = """
import os, sys, threading
import msgspec
from inspan.protocol.known_types import know_type

class Node0(msgspec.Struct): value: int = 0
for number in range(1, 40):
    fields = "".join(f"    field{each}: 'dict[str, list[tuple[int, str]]] | None' = None\\n" for each in range(20))
    exec(f"class Node{number}(msgspec.Struct):\\n{fields}    inner: 'list[Node{number - 1}]' = []\\n")

def decode():
    started.wait()
    for _ in range(3):
        done.append(msgspec.convert({"inner": [{"field1": {"a": [[1, "x"]]}}]}, know_type(Node39)))
        done.append(msgspec.json.Decoder(know_type(list[Node20])).decode(b'[{"inner": [{}]}]'))

sys.setswitchinterval(1e-6)
started, done = threading.Barrier(4), []
threads = [threading.Thread(target=decode) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
if (pid := os.fork()) == 0:
    know_type(Node5)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(len(done))
"""


def test_threads_that_need_a_type_at_once_all_find_it_whole() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "24\n", "")
