"""A slow link: passes bytes on to a server, each piece after a pause that is read from standard input.

python -m tests.support.relay HOST PORT SERVER_PORT
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

PIECE = 2**14  # bytes that pass at once


class Relay:
    """Between clients and a server on the same host."""

    def __init__(self, host: str, server_port: int) -> None:
        self.host, self.server_port, self.pause = host, server_port, 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client with the server, both ways."""
        with suppress(OSError):
            server = await asyncio.open_connection(self.host, self.server_port)
            await asyncio.gather(self.carry(reader, server[1]), self.carry(server[0], writer))

    async def carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass bytes on until there are no more."""
        with suppress(OSError):
            while data := await source.read(PIECE):
                if self.pause:
                    await asyncio.sleep(self.pause)
                target.write(data)
                await target.drain()
        with suppress(OSError):
            target.close()


async def main() -> None:
    """Serve until standard input ends; each line of it is a pause in seconds."""
    host, port, server_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    relay = Relay(host, server_port)
    await asyncio.start_server(relay.serve, host, port)
    while line := await asyncio.to_thread(sys.stdin.readline):
        relay.pause = float(line)


if __name__ == "__main__":
    asyncio.run(main())
