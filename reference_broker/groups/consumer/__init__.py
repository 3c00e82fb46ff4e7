"""KIP-848 consumer groups: the coordinator computes assignments, and members adopt them at their own pace."""
