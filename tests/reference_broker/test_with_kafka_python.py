"""kafka-python lists and creates topics, produces, and consumes in a group with the broker.

Method: run a script in a separate process, since kafka-python uses deprecated functions, which are errors in this one.
"""

from __future__ import annotations

import subprocess
import sys

from kafkawire.reference_broker.server import BackgroundBroker

TIMEOUT_SECONDS = 60

SCRIPT = """
import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

bootstrap = sys.argv[1]
admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic("kp", 2, 1)])
assert "kp" in admin.list_topics()
producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
for number in range(100):
    producer.send("kp", key=b"%d" % number, value=b"v%d" % number)
producer.flush(20)
producer.close()
consumer = KafkaConsumer(
    "kp", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=20_000
)
values = {message.value for _, message in zip(range(100), consumer)}
assert values == {b"v%d" % number for number in range(100)}, values
consumer.commit()
partitions = [TopicPartition("kp", 0), TopicPartition("kp", 1)]
ends = consumer.end_offsets(partitions)
assert sum(ends.values()) == 100, ends
assert {partition: consumer.committed(partition) for partition in partitions} == ends
consumer.close()
admin.delete_topics(["kp"])
admin.close()
print("done")
"""


def test_kafka_python(tmp_path):
    with BackgroundBroker(tmp_path) as broker:
        command = [sys.executable, "-c", SCRIPT, broker.bootstrap]
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert result.stdout.endswith("done\n"), result.stdout + result.stderr
