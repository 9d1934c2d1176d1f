"""The command ``stoker``, or ``python -m stoker``; Ctrl-C ends it quietly even during its imports."""

import signal
import sys
from types import FrameType


def main() -> None:
    """Import and run the command line; after Ctrl-C the exit status is 130, and after SIGTERM it is 143."""
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once
        raise KeyboardInterrupt

    signals = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) == signal.SIG_DFL]
    for one in signals:  # nohup ignores SIGHUP
        signal.signal(one, stop)
    try:
        from stoker.pipeline.commands.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        for one in signals:
            signal.signal(one, signal.SIG_DFL)
        if received:
            sys.exit(128 + received[0])


if __name__ == "__main__":
    main()
