"""``torch.fx``: programs as graphs that other programs read and change.

symbolic_trace(module) -> GraphModule: a Graph of Nodes, and the Python code that it stands for
                          Interpreter runs it node by node, Transformer makes another of it, replace_pattern changes parts
"""

from __future__ import annotations

from ..core import late as _late
from . import immutable_collections as immutable_collections, node as node, proxy as proxy, traceback as traceback
from ._symbolic_trace import PH as PH, Tracer as Tracer, symbolic_trace as symbolic_trace, wrap as wrap
from .graph import CodeGen as CodeGen, Graph as Graph
from .graph_module import GraphModule as GraphModule
from .interpreter import Interpreter as Interpreter, Transformer as Transformer
from .node import Node as Node, has_side_effect as has_side_effect, map_arg as map_arg
from .proxy import Proxy as Proxy
from .subgraph_rewriter import replace_pattern as replace_pattern

_late.adopt(__name__)
