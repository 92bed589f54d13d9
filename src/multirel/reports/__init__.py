"""Pictures and text made from results. Nothing here imports torch."""

from multirel.reports._comparison import comparison_figure
from multirel.reports._files import save_figure
from multirel.reports._hinton import hinton_diagram
from multirel.reports._hinton_text import hinton_legend, hinton_text

__all__ = ["comparison_figure", "hinton_diagram", "hinton_legend", "hinton_text", "save_figure"]
