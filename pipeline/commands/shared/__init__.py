"""What several commands share: options, console output and progress."""
