"""Holds a listening socket as systemd does, and runs one process after the other with it.

`hand_over.py PORT COMMAND…`: each line on standard input ends the process by SIGTERM and starts the next.
"""
import os
import socket
import subprocess
import sys

listening = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)


def start():
    def prepare():
        os.dup2(listening.fileno(), 3)
        os.set_inheritable(3, True)

    # LISTEN_PID is the process's own: the shell's, which then becomes it.
    script = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
    return subprocess.Popen(["sh", "-c", script, "sh", *sys.argv[2:]], preexec_fn=prepare, close_fds=False)


process = start()
print("started", flush=True)
for _ in sys.stdin:
    process.terminate()
    code = process.wait()
    process = start()
    print(f"replaced {code}", flush=True)
process.terminate()
process.wait()
