"""The command ``stoker``, or ``python -m stoker``; Ctrl-C ends it quietly even during its imports."""

import sys


def main() -> None:
    """Import and run the command line; after Ctrl-C the exit status is 130."""
    try:
        from stoker.pipeline.commands.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
