"""Real programs that ask a real gateway, offer a tool of any name, and do with its calls whatever a test wants."""

# As Codex is started, and as it answers; `offers` are tools as its wire declares them, `use` gives what a call came to.
CODEX = """
import json, os, re, subprocess, sys, urllib.request
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.163.0")
    sys.exit()
prompt = sys.stdin.read()
def put(**frame): print(json.dumps(frame), flush=True)
url = re.search(r'base_url="([^"]+)"', " ".join(sys.argv))[1]
def ask(said):
    body = json.dumps({"model": "m", "input": said, "tools": offers, "stream": False}).encode()
    headers = {"authorization": "Bearer " + os.environ["INSPAN_RUN_TOKEN"], "content-type": "application/json"}
    request = urllib.request.Request(url + "/responses", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["output"]
def work():
    put(type="thread.started", thread_id="thread-1"); put(type="turn.started")
    said = [{"role": "user", "content": prompt}]
    while True:
        items = ask(said)
        for number, item in enumerate(items):
            if item["type"] == "message":
                text = item["content"][0]["text"]
                put(type="item.completed", item={"id": "m", "type": "agent_message", "text": text})
        calls = [item for item in items if item["type"] == "function_call"]
        if not calls:
            break
        said += items
        for call in calls:
            result = use(call["name"], json.loads(call["arguments"]))
            if result is not None:
                said.append({"type": "function_call_output", "call_id": call["call_id"], "output": result})
    put(type="turn.completed", usage={"input_tokens": 3, "output_tokens": 4})
def shell(command):
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout or "(no output)"
def function(name, *fields, kind="function"):
    properties = {field: {"type": "string"} for field in fields}
    return {"type": kind, "name": name, "parameters": {"properties": properties, "required": list(fields)}}
"""

# As an agent of the protocol, which asks on the Messages wire.
ACP = """
import json, os, subprocess, sys, urllib.request
def put(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def get(): return json.loads(sys.stdin.readline())
def update(told, **fields):
    put(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": told, **fields}})
def ask(said):
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": said, "tools": offers}).encode()
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"]
def work():
    put(id=get()["id"], result={"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"version": "1.2.3"}})
    put(id=get()["id"], result={"sessionId": "s"})
    asked = get()
    said = [{"role": "user", "content": json.dumps(asked["params"]["prompt"])}]
    while True:
        blocks = ask(said)
        for block in blocks:
            if block["type"] == "text":
                update("agent_message_chunk", content={"type": "text", "text": block["text"]})
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            break
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": use(call["name"], call["input"])}
                   for call in calls]
        said += [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    put(id=asked["id"], result={"stopReason": "end_turn"})
    sys.stdin.read()
def shell(command):
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout or "(no output)"
def function(name, *fields):
    properties = {field: {"type": "string"} for field in fields}
    return {"name": name, "input_schema": {"type": "object", "properties": properties, "required": list(fields)}}
"""
