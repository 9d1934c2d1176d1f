"""``python -m stoker``: the command line, where the script ``stoker`` is not on the path."""

from stoker.pipeline.cli import main

if __name__ == "__main__":
    main()
