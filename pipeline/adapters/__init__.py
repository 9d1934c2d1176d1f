"""One framework a file, same verbs, imported only when asked for."""
