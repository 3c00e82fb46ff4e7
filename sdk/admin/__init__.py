"""The admin client: topics, replicas, log directories, configurations, groups and offsets."""
