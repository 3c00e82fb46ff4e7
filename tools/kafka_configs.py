"""Import the configurations of a Kafka release from a running broker into the table in schemas/.

`python -m tools.kafka_configs` starts one node of the release that the schemas describe, like `make test-kafka`. It
sends DescribeConfigs to the node for a topic, the node itself, a group and a client metrics subscription, reads the
allowed values from the pages that Kafka's classes print for the documentation, and writes `configs.yaml`. Our own
entries are kept. A configuration that the release adds needs an `about` in our own words: the command names it and
exits with 1, and the schemas are invalid until the text is written. `--check` writes nothing, and exits with 1 if the
file would change.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from kafkawire.codegen import SCHEMAS
from kafkawire.codegen.dump import dump_configs
from kafkawire.codegen.file_set import replace_files
from kafkawire.codegen.import_configs import Answer, updated_configs
from kafkawire.sdk.protocol.messages.create_topics import CreateTopicsRequest
from kafkawire.sdk.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kafkawire.sdk.protocol.tables.enums import ConfigResourceType, ConfigSource, ConfigType
from kafkawire.sdk.transport.blocking import FrameSocket
from tests.kafka.apache import ApacheKafka, run_tool
from tests.kafka.produced import call

__all__ = ["main"]

_TIMEOUT_SECONDS: Final = 30

_TOPIC: Final = "described"

#: The resource to describe for each kind, keyed by the kind's name in the table. A group or a subscription need not
#: exist.
_RESOURCES: Final = {
    "topic": (ConfigResourceType.TOPIC, _TOPIC),
    "broker": (ConfigResourceType.BROKER, "1"),
    "group": (ConfigResourceType.GROUP, "described"),
    "client_metrics": (ConfigResourceType.CLIENT_METRICS, "described"),
}

#: The classes that print a page of the documentation.
_PAGES: Final = {
    "topic": "org.apache.kafka.storage.internals.log.LogConfig",
    "broker": "kafka.server.KafkaConfig",
    "group": "org.apache.kafka.coordinator.group.GroupConfig",
}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="tools.kafka_configs", description="Import the configurations of Kafka.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file would change")
    only_check = parser.parse_args(arguments).check
    path = SCHEMAS / "configs.yaml"
    configs = updated_configs(_answers(), {resource: _page(name) for resource, name in _PAGES.items()}, path)
    text = dump_configs(configs)
    is_changed = not _has(path, text)
    if is_changed:
        print(f"{'would change' if only_check else 'changed'}  {path.name}")
        if not only_check:
            replace_files(SCHEMAS, {Path(path.name): text})
    missing = [f"{resource} {spec.name}" for resource, specs in configs.items() for spec in specs if not spec.about]
    for name in missing:
        print(f"{name} has no about: describe it in our own words in {path.name}")
    return 1 if missing or (only_check and is_changed) else 0


def _has(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


def _page(name: str) -> str:
    result = run_tool(name)
    result.check_returncode()
    return result.stdout


def _answers() -> dict[str, list[Answer]]:
    """Return the responses from one of the release's brokers, keyed by kind of resource."""
    with ApacheKafka() as kafka, FrameSocket("127.0.0.1", kafka.port, _TIMEOUT_SECONDS) as socket:
        topics = [CreateTopicsRequest.CreatableTopic(_TOPIC, 1, 1)]
        call(socket, CreateTopicsRequest(topics, timeout_ms=_TIMEOUT_SECONDS * 1000), 7)
        found = {}
        for resource, (kind, name) in _RESOURCES.items():
            asked = DescribeConfigsRequest.DescribeConfigsResource(kind, name, None)
            request = DescribeConfigsRequest([asked], include_synonyms=True)
            response = call(socket, request, 4)
            if not isinstance(response, DescribeConfigsResponse) or response.results[0].error_code:
                raise RuntimeError(f"the broker does not describe the {resource} {name}: {response}")
            found[resource] = [_answer(entry) for entry in response.results[0].configs]
    return found


def _answer(entry: DescribeConfigsResponse.DescribeConfigsResourceResult) -> Answer:
    kind = ConfigType(entry.config_type).name.lower()
    other = next((each.name for each in entry.synonyms if each.name != entry.name), "")
    return Answer(entry.name, kind, _default(entry), other)


def _default(entry: DescribeConfigsResponse.DescribeConfigsResourceResult) -> str | None:
    """Return the default, even if the node's own settings override it."""
    defaults = [each.value for each in entry.synonyms if each.source == ConfigSource.DEFAULT_CONFIG]
    if defaults:
        return defaults[0]
    return entry.value if entry.config_source == ConfigSource.DEFAULT_CONFIG else None


if __name__ == "__main__":
    sys.exit(main())
