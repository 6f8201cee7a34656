"""Operations on sparse tensors: making them, conversions, rules of the other operations for sparse operands, products, reductions.

Imported when one of its names is first used; ``ops`` lists them.
"""

from __future__ import annotations

from . import construction, conversion, elementwise, places, products, reductions

__all__ = ["construction", "conversion", "elementwise", "places", "products", "reductions"]
