"""The commands of ``stoker``, and what they print."""
