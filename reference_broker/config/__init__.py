"""What a broker and its topics are configured with."""
