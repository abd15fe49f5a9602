"""moto's server, whose DynamoDB answers one request after the other: `python serve_moto.py PORT`.

moto answers in threads and takes no lock: two DynamoDB transactions may both find their conditions true, and one that is
cancelled puts back a copy of the table that lacks what others wrote meanwhile. DynamoDB's transactions are serializable,
and the tests rely on that. Other services keep their threads: a long poll of a queue must not hold up the rest.
"""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

HOST = "127.0.0.1"


class SerialDynamoDb:
    """A WSGI application in which calls to DynamoDB wait for each other. moto has done all work when it returns."""

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
    # moto writes its own address into some answers.
    os.environ["MOTO_PORT"] = str(port)
    application = DomainDispatcherApplication(create_backend_app)
    run_simple(HOST, port, SerialDynamoDb(application), threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
