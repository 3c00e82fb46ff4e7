"""KIP-848 consumer groups: the coordinator assigns, and members follow at their own pace."""
