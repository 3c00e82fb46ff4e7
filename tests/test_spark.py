"""The public face of the Spark part can be imported without Spark, and gives what it names."""

from __future__ import annotations

import subprocess
import sys

from kafkawire import spark
from kafkawire.sdk.spark import decode, functions


def test_names() -> None:
    assert spark.__all__ == sorted([*decode.__all__, *functions.__all__])
    assert spark.decode_batches is decode.decode_batches
    assert spark.decode_records is functions.decode_records


def test_import_does_not_need_spark() -> None:
    code = "import sys, kafkawire.spark; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
