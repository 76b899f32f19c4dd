"""All four kinds of gRPC calls, by grpcio: `serve` prints its port, `call TARGET [CA HOST]` says `ok`; `drain TARGET` says `open`
once it has a call under way, and `ok` if that call outlives, to its end, the word on standard input that the proxy stops."""
import queue
import sys
import time
from concurrent import futures

import grpc


class Kinds(grpc.GenericRpcHandler):
    def service(self, details):
        return {
            "/t.T/Unary": grpc.unary_unary_rpc_method_handler(lambda one, _: b"u:" + one),
            "/t.T/Download": grpc.unary_stream_rpc_method_handler(self.download),
            "/t.T/Upload": grpc.stream_unary_rpc_method_handler(lambda many, _: b",".join(many)),
            "/t.T/Both": grpc.stream_stream_rpc_method_handler(self.both),
            "/t.T/Fail": grpc.unary_unary_rpc_method_handler(self.fail),
        }.get(details.method)

    def download(self, one, _):
        for nth in range(5):
            yield one + str(nth).encode()

    def both(self, many, _):
        for one in many:
            yield b"b:" + one

    def fail(self, _, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not like this")


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[Kinds()])
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


def call(target, ca=None, host=None):
    if ca:
        with open(ca, "rb") as file:
            trust = grpc.ssl_channel_credentials(file.read())
        channel = grpc.secure_channel(target, trust, [("grpc.ssl_target_name_override", host)])
    else:
        channel = grpc.insecure_channel(target)
    wait = {"timeout": 30}
    assert channel.unary_unary("/t.T/Unary")(b"x", **wait) == b"u:x"
    assert list(channel.unary_stream("/t.T/Download")(b"d", **wait)) == [b"d0", b"d1", b"d2", b"d3", b"d4"]
    assert channel.stream_unary("/t.T/Upload")(iter([b"a", b"b", b"c"]), **wait) == b"a,b,c"

    # Each answer is waited for before the next is sent: nothing may be held back on the way.
    seen = []

    def questions():
        for nth in range(4):
            while len(seen) < nth:
                pass
            yield str(nth).encode()

    for answer in channel.stream_stream("/t.T/Both")(questions(), **wait):
        seen.append(answer)
    assert seen == [b"b:0", b"b:1", b"b:2", b"b:3"], seen
    large = b"x" * 1_000_000
    assert channel.unary_unary("/t.T/Unary")(large, **wait) == b"u:" + large
    try:
        channel.unary_unary("/t.T/Fail")(b"", **wait)
        raise AssertionError("a failed call succeeded")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION, error
        assert error.details() == "not like this", error
    print("ok")


def drain(target):
    channel = grpc.insecure_channel(target)
    asked = queue.Queue()
    answers = channel.stream_stream("/t.T/Both")(iter(asked.get, None), timeout=30)

    def talk(times):
        for nth in range(times):
            asked.put(str(nth).encode())
            assert next(answers) == b"b:" + str(nth).encode()

    talk(1)
    print("open", flush=True)
    sys.stdin.readline()
    talk(20)
    # Until the client has been told to go, a new call is served; then there is nobody left who would take one.
    end = time.monotonic() + 30
    while True:
        try:
            assert channel.unary_unary("/t.T/Unary")(b"x", timeout=30) == b"u:x"
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            break
        assert time.monotonic() < end, "new calls are still taken"
    talk(20)
    asked.put(None)
    assert list(answers) == []
    assert answers.code() == grpc.StatusCode.OK, answers
    print("ok")


{"serve": serve, "call": call, "drain": drain}[sys.argv[1]](*sys.argv[2:])
