"""A gRPC server for tests, with Google's implementation: server.py DESCRIPTORS [--no-reflection]. Prints its port."""

import sys
import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

files = descriptor_pb2.FileDescriptorSet.FromString(open(sys.argv[1], "rb").read()).file
pool = descriptor_pool.DescriptorPool()
for file in files:
    pool.Add(file)
factory = message_factory.MessageFactory(pool)
Kinds = factory.GetPrototype(pool.FindMessageTypeByName("test.kinds.v1.Kinds"))
Inner = factory.GetPrototype(pool.FindMessageTypeByName("test.kinds.v1.Kinds.Inner"))


def say(request, context):
    """Returns the message. Its text may be an order: fail CODE TEXT, sleep SECONDS, metadata NAME, or gzip."""
    order = request.a_string.split(" ", 2)
    if order[0] == "fail":
        context.abort(grpc.StatusCode[order[1]], order[2])
    elif order[0] == "sleep":
        time.sleep(float(order[1]))
    elif order[0] == "metadata":
        request.a_string = dict(context.invocation_metadata())[order[1]]
    elif order[0] == "left":
        request.a_string = "some" if context.time_remaining() < 3600 else "much"
    elif order[0] == "gzip":
        context.set_compression(grpc.Compression.Gzip)
    return request


def count(request, context):
    for number in range(request.count):
        yield Inner(name=request.name, count=number)
    if request.name == "fail":
        context.abort(grpc.StatusCode.DATA_LOSS, "at the end")


def sum_up(requests, context):
    requests = list(requests)
    return Inner(name=" ".join(request.name for request in requests), count=sum(request.count for request in requests))


def chat(requests, context):
    yield from requests


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def reflect(requests, context):
    """Answers questions about files. A request is one field behind its key and its length of one byte."""
    for request in requests:
        number, asked = request[0] >> 3, request[2:].decode()
        if number == 7:
            service = field(1, field(1, b"test.kinds.v1.Echo"))
            yield field(6, service + field(1, field(1, b"grpc.reflection.v1alpha.ServerReflection")))
            continue
        found = [file for file in files if file.name == asked or asked == "test.kinds.v1.Echo" == file.package + ".Echo"]
        if found:
            yield field(4, b"".join(field(1, file.SerializeToString()) for file in found))
        else:
            yield field(7, field(2, b"not known here"))


def of(handler, message, answer):
    return handler, message.FromString, lambda sent: sent.SerializeToString()


methods = {
    "Say": grpc.unary_unary_rpc_method_handler(*of(say, Kinds, Kinds)),
    "Count": grpc.unary_stream_rpc_method_handler(*of(count, Inner, Inner)),
    "Sum": grpc.stream_unary_rpc_method_handler(*of(sum_up, Inner, Inner)),
    "Chat": grpc.stream_stream_rpc_method_handler(*of(chat, Inner, Inner)),
}
server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.kinds.v1.Echo", methods)])
if "--no-reflection" not in sys.argv:
    reflection = {"ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(reflect)}
    name = "grpc.reflection.v1alpha.ServerReflection"
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, reflection)])
if "--tls" in sys.argv:
    place = sys.argv.index("--tls")
    key, certificate = (open(name, "rb").read() for name in sys.argv[place + 1 : place + 3])
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
# The test holds the other end of the standard input.
sys.stdin.read()
server.stop(None)
