"""Nearly all of the time in `write_letters`, profiled by Pyroscope's own SDK for Python and sent to the address in SERVER."""

import os
import time

import pyroscope

headers = {"Authorization": f"Bearer {os.environ['TOKEN']}"} if "TOKEN" in os.environ else {}
pyroscope.configure(
    application_name="sdk-mail", server_address=os.environ["SERVER"], tags={"env": "test"}, http_headers=headers, upload_interval=2)


def write_letters(seconds):
    end = time.monotonic() + seconds
    letters = 0
    while time.monotonic() < end:
        letters += sum(number * number for number in range(10_000))
    return letters


write_letters(float(os.environ.get("SECONDS_BUSY", "5")))
pyroscope.shutdown()
