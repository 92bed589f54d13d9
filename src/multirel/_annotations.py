"""Array annotations such as `Float[Tensor, "T O I"]`, also where jaxtyping is not installed."""

from typing import TYPE_CHECKING

__all__ = ["Bool", "Float", "Int"]

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ModuleNotFoundError:

        class Float:
            """Stands in for jaxtyping's: `Float[Tensor, "…"]` is plain `Tensor`."""

            def __class_getitem__(cls, item):
                return item[0]

        class Bool:
            """Stands in for jaxtyping's, as `Float` does."""

            def __class_getitem__(cls, item):
                return item[0]

        class Int:
            """Stands in for jaxtyping's, as `Float` does."""

            def __class_getitem__(cls, item):
                return item[0]
