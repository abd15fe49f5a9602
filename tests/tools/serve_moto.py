"""moto's server, whose DynamoDB handles one request after the other: `python serve_moto.py PORT`.

moto handles requests in threads without locks: the conditions of two concurrent DynamoDB transactions may both be true, and a cancelled
one restores a copy of the table without the writes of others since then. DynamoDB's transactions are serializable, and the tests rely on
that. Other services keep their threads, because a long poll of a queue must not block other requests.
"""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

HOST = "127.0.0.1"


class SerialDynamoDb:
    """A WSGI application that runs calls to DynamoDB one after the other. moto has finished a call when it returns."""

    def __init__(self, application):
        self.application = application
        self.lock = threading.Lock()

    def __call__(self, environ, start_response):
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB_"):
            return self.application(environ, start_response)
        with self.lock:
            return self.application(environ, start_response)


def main():
    port = int(sys.argv[1])
    # moto writes its address into some responses.
    os.environ["MOTO_PORT"] = str(port)
    application = DomainDispatcherApplication(create_backend_app)
    run_simple(HOST, port, SerialDynamoDb(application), threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
