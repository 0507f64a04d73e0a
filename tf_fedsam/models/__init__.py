"""Models by name: `build("resnet18", (32, 32, 3), 10, {"stem": "cifar"})`."""

from tf_fedsam.models.registry import (
    build,
    check_options,
    describe,
    inert_options,
    names,
    options,
)

__all__ = ["build", "check_options", "describe", "inert_options", "names", "options"]
