"""Array annotations such as `Float[Tensor, "T O I"]`, also where jaxtyping is not installed."""

from typing import TYPE_CHECKING

__all__ = ["Float"]

if TYPE_CHECKING:
    from jaxtyping import Float
else:
    try:
        from jaxtyping import Float
    except ModuleNotFoundError:

        class Float:
            """Stands in for jaxtyping's: `Float[Tensor, "…"]` is plain `Tensor`."""

            def __class_getitem__(cls, item):
                return item[0]
