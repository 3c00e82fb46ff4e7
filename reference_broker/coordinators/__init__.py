"""The runtime of coordinators: state machines that keep their state in a partition of a topic."""
