"""A realm of MIT Kerberos on this machine, for tests: principals, a keytab and a key distribution centre.

with KerberosRealm(folder) as realm:
    realm.add("alice")                       # and the keytab of a service: realm.add("kafka/localhost")
    realm.environment                        # for the processes of clients and brokers
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.ports import free_port

__all__ = ["REALM", "KerberosRealm", "is_installed"]

REALM = "TEST.EXAMPLE"

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH = "/usr/sbin:/sbin:" + os.environ.get("PATH", "")
_TIMEOUT_SECONDS = 30

_CLIENTS = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""

_CENTRE = """[kdcdefaults]
kdc_ports = {port}
kdc_tcp_ports = {port}
[realms]
{realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 1h
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


def is_installed() -> bool:
    """Return whether this machine has the programs."""
    return all(shutil.which(program, path=_PATH) for program in _PROGRAMS)


class KerberosRealm:
    """A realm, running inside a `with` block.

    Args:
        folder: an empty folder for its files.

    Attributes:
        environment: what processes need to find the realm, and `keytab` for the keys of all principals.
        keytab: the file with the keys of all principals.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.keytab = folder / "keytab"
        self.environment = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5_KTNAME": str(self.keytab),
            "KRB5_CLIENT_KTNAME": str(self.keytab),
            "KRB5CCNAME": f"FILE:{folder / 'tickets'}",
            "KRB5RCACHEDIR": str(folder),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        values = {"realm": REALM, "port": self._port, "folder": self._folder}
        (self._folder / "krb5.conf").write_text(_CLIENTS.format(**values))
        (self._folder / "kdc.conf").write_text(_CENTRE.format(**values))
        self._run("kdb5_util", "create", "-s", "-P", "password of the database")
        command = [str(shutil.which("krb5kdc", path=_PATH)), "-n"]
        self._process = subprocess.Popen(
            command, env=os.environ | self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, "the key distribution centre did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_TIMEOUT_SECONDS)

    def add(self, principal: str) -> None:
        """Add a principal, and its key to the keytab."""
        self._run("kadmin.local", "addprinc", "-randkey", f"{principal}@{REALM}")
        self._run("kadmin.local", "ktadd", "-k", str(self.keytab), f"{principal}@{REALM}")

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), _TIMEOUT_SECONDS).close()
        except ConnectionRefusedError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(shutil.which(program, path=_PATH)), *arguments]
        subprocess.run(
            command, env=os.environ | self.environment, check=True, capture_output=True, timeout=_TIMEOUT_SECONDS
        )
