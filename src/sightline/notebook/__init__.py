"""Answers as notebooks show them: registered by ``import sightline``, or by ``%load_ext sightline.notebook``.

Nothing but the names of types is registered, so that it costs nothing until an answer is displayed.
"""

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Show answers richly in this shell, and progress of long work where its front end is a notebook."""
    from sightline.notebook.formatters import register

    register(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Show answers as Python does again."""
    from sightline.notebook.formatters import unregister

    unregister(shell)
