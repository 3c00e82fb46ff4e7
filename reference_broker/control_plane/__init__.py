"""The control plane of a broker, which depends on whether the broker is standalone or a member of a cluster."""
