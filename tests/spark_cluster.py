"""A standalone Spark cluster: a master and workers, running as processes that share only files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.ports import await_port, free_port

__all__ = ["spark_command", "standalone_cluster"]

_HOST = "127.0.0.1"


def spark_command(name: str) -> str:
    """Return the path of a command that comes with pyspark."""
    import pyspark

    return str(Path(pyspark.__path__[0]) / "bin" / name)


@contextmanager
def standalone_cluster(folder: Path, workers: int, environment: Mapping[str, str]) -> Iterator[str]:
    """Start a cluster whose workers have one core and 1 GiB each, and provide the URL of its master.

    Args:
        folder: the folder for logs and for the workers' files.
        workers: the number of workers.
        environment: the environment variables for the processes.
    """
    port = free_port()
    with ExitStack() as running:
        _start(running, folder, "master", port, environment, "org.apache.spark.deploy.master.Master")
        url = f"spark://{_HOST}:{port}"
        worker = ["org.apache.spark.deploy.worker.Worker", url, "--cores", "1", "--memory", "1g"]
        for number in range(workers):
            work = folder / f"worker-{number}"
            _start(running, folder, work.name, free_port(), environment, *worker, "--work-dir", str(work))
        yield url


def _start(
    running: ExitStack, folder: Path, name: str, port: int, environment: Mapping[str, str], *command: str
) -> None:
    log = folder / f"{name}.log"
    where = ["--host", _HOST, "--port", str(port), "--webui-port", str(free_port())]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [spark_command("spark-class"), *command, *where],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **environment},
        )
    running.callback(_end, process)
    await_port(port, process, log)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # a worker ends its executors
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
