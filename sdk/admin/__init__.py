"""The admin client: topics, groups, offsets and configurations."""
