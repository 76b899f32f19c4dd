"""A WebSocket conversation, by the websockets package: `serve` prints its port, `talk URL [CA]` says `ok`."""
import asyncio
import ssl
import sys

import websockets


async def echo(socket, *_path):
    async for message in socket:
        await socket.send(message)


async def serve():
    server = await websockets.serve(echo, "127.0.0.1", 0, max_size=None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Future()


async def talk(url, ca=None):
    trust = {"ssl": ssl.create_default_context(cafile=ca), "server_hostname": "a.example"} if ca else {}
    async with websockets.connect(url, max_size=None, **trust) as socket:
        for message in ["hello", "", b"\x00\xff", "x" * 300_000]:
            await socket.send(message)
            assert await asyncio.wait_for(socket.recv(), 30) == message
        await asyncio.wait_for(await socket.ping(), 30)
    print("ok")


asyncio.run(serve() if sys.argv[1] == "serve" else talk(*sys.argv[2:]))
