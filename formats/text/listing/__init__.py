"""Text as a source: files of lines, JSON Lines, tables, and texts of a program, as listings of samples."""
