"""The command ``tf-fedsam``: ``python -m launch.main`` for use outside of a clone."""

from launch import interrupts


def console() -> None:
    interrupts.quit_while_loading()
    from launch import main

    main.console()
