"""ClickHouse's HTTP interface, as far as nodespy uses it, before the engine itself as PyPI's chdb-core-lite has it: for tests.

  clickhouse-bridge.py     prints its port; ends when its input does, and what it stored with it

Statements run one at a time, and answers are held in memory. There are no users, no replicas and no clusters.
"""
import os
import re
import shutil
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session

OURS = {"query", "database", "default_format", "wait_end_of_query"}
FOLDER = tempfile.mkdtemp(prefix="nodespy-clickhouse-")
ENGINE = session.Session(FOLDER)
LOCK = threading.Lock()
KNOWN = {}  # settings last for the session


def run(parameters, body):
    """The answer to a statement, in the address with rows in the body, or in the body."""
    database = parameters.get("database")
    if database is not None and KNOWN.get("database") != database:
        ENGINE.query("USE `%s`" % database)
        KNOWN["database"] = database
    for name, value in parameters.items():
        is_setting = name not in OURS and not name.startswith("param_")
        if is_setting and KNOWN.get(name) != value:
            ENGINE.query("SET %s = '%s'" % (name, value.replace("'", "\\'")))
            KNOWN[name] = value
    texts = {name[6:]: value for name, value in parameters.items() if name.startswith("param_")}
    statement, rows = parameters.get("query"), None
    if statement is None:
        statement = body.decode()
    else:
        # Rows go by way of a file, which is how chDB takes them.
        insert = re.fullmatch(r"(?s)(INSERT INTO .*) FORMAT (\w+)", statement)
        descriptor, rows = tempfile.mkstemp()
        with os.fdopen(descriptor, "wb") as file:
            file.write(body)
        statement = "%s FROM INFILE '%s' FORMAT %s" % (insert[1], rows, insert[2])
    try:
        answer = ENGINE.query(statement, parameters.get("default_format", "TabSeparated"), params=texts or None)
        return (answer.bytes() if answer is not None else b"") or b""
    finally:
        if rows:
            os.unlink(rows)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        status = 200
        try:
            with LOCK:
                answer = run(parameters, body)
        except Exception as error:  # "Code: 60. DB::Exception: …"
            status, answer = 500, str(error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
# Closed first: it writes in the background.
LOCK.acquire(timeout=10)
ENGINE.close()
shutil.rmtree(FOLDER, ignore_errors=True)
os._exit(0)
