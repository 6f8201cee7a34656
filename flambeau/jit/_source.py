"""Code of archives: parsed, checked against a list of what TorchScript prints, and made into guarded Python functions.

    text of a file --split--> definitions --parse--> trees --Guard--> guarded trees --compile--> functions

Nothing of a text runs as it stands. ``Guard`` builds a new tree from the node types that it knows; any other is an error. Names are
arguments, local variables or entries of a table (``BUILTINS``), ``torch.f`` and ``ops.prim.f`` are operators by name, and every attribute
of a value is read by ``members.attribute``, which knows what a tensor, a list or an object of the archive has. Helpers have names that no
text can contain (``@attribute``).
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

from . import _members, _operators
from ._values import raised

# What a text may have: PyTorch's own printer stays far below.
CODE_BYTES = 1 << 22  # of all files of an archive together
NESTING = 200  # brackets in brackets, and what else nests on one line
LITERAL_ITEMS = 1 << 16  # of a list or dict in code, which the parser makes about 100 bytes each of

_DEFINITION = re.compile(r"^(class|def) +([A-Za-z_]\w*)", re.MULTILINE)
# A comment ends with its line, and a lambda's arguments soon: looking for either must not take more than a text's length of time.
_PREAMBLE = re.compile(r"(?:\s*(?:op_version_set *= *\d+|import +[\w.]+|#.*(?:\n|\Z)))*\s*")
_BRACKETS = re.compile(r"[(\[{]|[)\]}]")
_PREFIXES = re.compile(r"(?:(?:\bnot\b|[-~+]|\blambda\b[^:\n]{0,80}:)\s*){64,}")


def damaged(name: str, what: str) -> RuntimeError:
    """The error for code that is not TorchScript's."""
    return RuntimeError(f"{name:.200}: the code of this archive is damaged or not TorchScript: {what:.300}")


def split(text: str, module: str) -> Iterator[tuple[str, str]]:
    """The definitions of a file, as (qualified name, text).

    Raises:
        RuntimeError: there is something else in it.
    """
    found = list(_DEFINITION.finditer(text))
    if not _PREAMBLE.fullmatch(text[: found[0].start()] if found else text):
        raise damaged(module, "expected nothing but classes and functions")
    for match, after in zip(found, [*found[1:], None], strict=True):
        yield f"{module}.{match[2]}", text[match.start() : after.start() if after else len(text)].rstrip() + "\n"


def parse(text: str, name: str) -> Any:
    """The tree of one definition.

    Raises:
        RuntimeError: no definition, or one that nests too deeply.
    """
    _check_nesting(text, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that are Python's only
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise damaged(name, f"{type(error).__name__}: {error}") from None
    if len(body) != 1 or not isinstance(body[0], (ast.ClassDef, ast.FunctionDef)):
        raise damaged(name, "expected one class or function")
    return body[0]


def _check_nesting(text: str, name: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match[0] in "([{" else -1
        if depth > NESTING:
            raise damaged(name, f"more than {NESTING} brackets in each other")
    if _PREFIXES.search(text):
        raise damaged(name, "too many operators in a row")
    for line in text.split("\n"):
        if len(line) > 256 and max(line.count(word) for word in ("**", " else ", " not ", " if ", "lambda")) > NESTING:
            raise damaged(name, "too many nested expressions on a line")


def constant(node: ast.expr, name: str) -> Any:
    """The value of a default or a constant attribute: numbers, texts, None, and lists, tuples and dicts of them.

    Raises:
        RuntimeError: it is an expression.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in ("inf", "nan", "infj", "nanj"):
        return complex(0, float(node.id[:3])) if node.id.endswith("j") else float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = constant(node.operand, name)
        if isinstance(value, (int, float, complex)):
            return -value
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) <= LITERAL_ITEMS:
        values = [constant(element, name) for element in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        return {_key(constant(key, name), name): constant(value, name) for key, value in pairs}  # type: ignore[arg-type]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func) == "torch.device" and node.args:
        return _operators.operator("device")(constant(node.args[0], name))
    raise damaged(name, f"expected a constant, got {ast.unparse(node):.100}")


def _key(value: Any, name: str) -> Any:
    if not isinstance(value, (int, float, complex, str)):
        raise damaged(name, "a key that is neither a number nor a text")
    return value


def annotated(node: ast.expr, name: str) -> str:
    """Text of a type: names, dots and brackets.

    Raises:
        RuntimeError: it is no type.
    """
    for part in ast.walk(node):
        known = isinstance(part, (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.Load, ast.List))
        if not known and not (isinstance(part, ast.Constant) and part.value in (None, Ellipsis, ())):
            raise damaged(name, f"expected a type, got {ast.unparse(node):.100}")
    return ast.unparse(node)


def path_of(node: ast.expr) -> list[str] | None:
    """Names of ``a.b.c``; None for anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*reversed([*names, node.id])] if isinstance(node, ast.Name) else None


# -- the guard ---------------------------------------------------------------------------------------------------------------------
_PASSED = (ast.Pass, ast.Break, ast.Continue)
_EXPRESSIONS = (
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Slice, ast.ListComp, ast.DictComp,
    ast.comprehension,
)  # fmt: skip
_STATEMENTS = (ast.Expr, ast.If, ast.For, ast.While, ast.Return, ast.Assert, ast.Delete, ast.With, ast.withitem)


class Guard:
    """Builds the guarded tree of a function.

    Args:
        name: the function's qualified name.
        find: gives the class or function of a qualified name.
        constants: the archive's tensors, ``CONSTANTS.c0`` and so on.
    """

    def __init__(self, name: str, find: Any, constants: list[Any]) -> None:
        self.name = name
        self.scope: dict[str, Any] = {
            "__builtins__": {},
            "@attribute": _members.attribute,
            "@assign": _members.assign,
            "@find": find,
            "@constant": constants.__getitem__,
            "@isinstance": lambda value, kind: _members.is_a(value, kind),
            "@raised": raised,
        }
        self.locals: list[set[str]] = []
        self.count = len(constants)

    def function(self, node: ast.FunctionDef) -> Any:
        """The function of a tree."""
        guarded = self._function(node)
        guarded.name = "@function"
        module = ast.fix_missing_locations(ast.Module([guarded], []))
        try:
            code = compile(module, f"<{self.name}>", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            raise damaged(self.name, f"{type(error).__name__}: {error}") from None
        exec(code, self.scope)
        made = self.scope.pop("@function")
        made.__name__ = made.__qualname__ = node.name
        made.__module__ = self.name.rpartition(".")[0]
        return made

    def _function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = node.args
        if node.decorator_list or arguments.vararg or arguments.kwarg or arguments.posonlyargs:
            raise damaged(self.name, "a function with decorators or *arguments")
        names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
        self.locals.append({*names, *_assigned(node.body)})
        defaults = [self._default(value) for value in arguments.defaults]
        keyword_defaults = [None if value is None else self._default(value) for value in arguments.kw_defaults]
        made = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(argument.arg) for argument in arguments.args],
            kwonlyargs=[ast.arg(argument.arg) for argument in arguments.kwonlyargs],
            defaults=defaults,
            kw_defaults=keyword_defaults,
        )
        body = self._body(node.body)
        self.locals.pop()
        return ast.FunctionDef(name=node.name, args=made, body=body, decorator_list=[], returns=None)

    def _default(self, node: ast.expr) -> ast.expr:
        name = f"@default{len(self.scope)}"
        self.scope[name] = constant(node, self.name)
        return ast.Name(name, ast.Load())

    # -- statements -----------------------------------------------------------------------------------------------------------
    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [self.statement(statement) for statement in statements] or [ast.Pass()]

    def statement(self, node: ast.stmt) -> ast.stmt:
        """A statement, guarded."""
        if isinstance(node, _PASSED):
            return node
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self._assignment(node.targets[0], self.expression(node.value))
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            annotated(node.annotation, self.name)
            return ast.Assign([ast.Name(node.target.id, ast.Store())], self.expression(node.value))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, (ast.Name, ast.Subscript)):
            return ast.AugAssign(self._target(node.target), node.op, self.expression(node.value))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            read = ast.Attribute(node.target.value, node.target.attr, ast.Load())
            return self._assignment(node.target, self._binary(read, node.op, node.value))
        if isinstance(node, ast.FunctionDef):
            if node.args.args or node.args.kwonlyargs or len(self.locals) > 8:
                raise damaged(self.name, "a function inside of another that takes arguments")
            return self._function(node)
        if isinstance(node, ast.Raise) and node.exc is not None:
            return ast.Raise(ast.Call(ast.Name("@raised", ast.Load()), [ast.Constant(ast.unparse(node.exc))], []))
        if isinstance(node, _STATEMENTS):
            return self._rebuilt(node)
        raise damaged(self.name, f"a statement of type {type(node).__name__}")

    def _assignment(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        if isinstance(target, ast.Attribute):
            arguments = [self.expression(target.value), ast.Constant(target.attr), value]
            return ast.Expr(ast.Call(ast.Name("@assign", ast.Load()), arguments, []))
        return ast.Assign([self._target(target)], value)

    def _target(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return ast.Name(node.id, ast.Store())
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self._target(element) for element in node.elts], ast.Store())
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.expression(node.value), self.expression(node.slice), ast.Store())
        raise damaged(self.name, f"an assignment to {type(node).__name__}")

    def _rebuilt(self, node: Any) -> Any:
        """The same node with all that is in it guarded; the node's type has been looked at."""
        fields: dict[str, Any] = {}
        for field, value in ast.iter_fields(node):
            if isinstance(node, ast.Delete) or (field in ("target", "optional_vars") and value is not None):
                fields[field] = self._deleted(value) if isinstance(node, ast.Delete) else self._target(value)
            elif isinstance(value, list):
                fields[field] = [self._part(item) for item in value]
            else:
                fields[field] = self._part(value)
        return type(node)(**fields)

    def _deleted(self, targets: list[ast.expr]) -> list[ast.expr]:
        made: list[ast.expr] = []
        for target in targets:
            if not isinstance(target, ast.Subscript):
                raise damaged(self.name, "del of anything but an item")
            made.append(ast.Subscript(self.expression(target.value), self.expression(target.slice), ast.Del()))
        return made

    def _part(self, value: Any) -> Any:
        if isinstance(value, ast.expr):
            return self.expression(value)
        if isinstance(value, ast.stmt):
            return self.statement(value)
        if isinstance(value, (ast.withitem, ast.comprehension)):
            return self._rebuilt(value)
        return value  # operators, contexts, None

    # -- expressions ----------------------------------------------------------------------------------------------------------
    def expression(self, node: ast.expr) -> Any:
        """An expression, guarded."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.expression(node.value), self.expression(node.slice), ast.Load())
        if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > LITERAL_ITEMS:
            raise damaged(self.name, f"a list of more than {LITERAL_ITEMS} items")
        if isinstance(node, ast.Dict) and None not in node.keys:
            return ast.Dict([self.expression(key) for key in node.keys if key], [self.expression(value) for value in node.values])
        if isinstance(node, ast.BinOp):
            return self._binary(node.left, node.op, node.right)
        if isinstance(node, (ast.ListComp, ast.DictComp)):
            return self._comprehension(node)
        if isinstance(node, _EXPRESSIONS):
            return self._rebuilt(node)
        raise damaged(self.name, f"an expression of type {type(node).__name__}")

    def _binary(self, left: ast.expr, op: ast.operator, right: ast.expr) -> ast.expr:
        operands = [self.expression(left), self.expression(right)]
        if isinstance(op, ast.Pow):  # which is a float of integers, too
            return ast.Call(self._known("**", _operators.power), operands, [])
        return ast.BinOp(operands[0], op, operands[1])

    def _comprehension(self, node: Any) -> Any:
        self.locals.append({part.id for generator in node.generators for part in ast.walk(generator.target) if isinstance(part, ast.Name)})
        made = self._rebuilt(node)
        self.locals.pop()
        return made

    def _known(self, name: str, value: Any) -> ast.expr:
        self.scope[f"@{name}"] = value
        return ast.Name(f"@{name}", ast.Load())

    def _is_local(self, name: str) -> bool:
        return any(name in names for names in self.locals)

    def _name(self, name: str) -> ast.expr:
        if self._is_local(name):
            return ast.Name(name, ast.Load())
        if name in _operators.BUILTINS:
            return self._known(name, _operators.BUILTINS[name])
        if name in ("inf", "nan"):
            return ast.Constant(float(name))
        if name in ("infj", "nanj"):
            return ast.Constant(complex(0, float(name[:3])))
        raise damaged(self.name, f"undefined value {name}")

    def _attribute(self, node: ast.Attribute) -> ast.expr:
        path = path_of(node)
        if path is not None and not self._is_local(path[0]):
            if path[0] == "CONSTANTS" and len(path) == 2 and re.fullmatch(r"c\d{1,9}", path[1]) and int(path[1][1:]) < self.count:
                return ast.Call(ast.Name("@constant", ast.Load()), [ast.Constant(int(path[1][1:]))], [])
            if path[0] == "__torch__":
                return ast.Call(ast.Name("@find", ast.Load()), [ast.Constant(".".join(path))], [])
            if path[0] in ("torch", "ops", "CONSTANTS"):
                raise damaged(self.name, f"undefined value {'.'.join(path):.100}")
        return ast.Call(ast.Name("@attribute", ast.Load()), [self.expression(node.value), ast.Constant(node.attr)], [])

    def _operator(self, namespace: str, name: str) -> ast.expr:
        return self._known(f"{namespace}.{name}", _operators.operator(name, namespace))

    def _call(self, node: ast.Call) -> ast.expr:
        if any(isinstance(argument, ast.Starred) for argument in node.args) or any(keyword.arg is None for keyword in node.keywords):
            raise damaged(self.name, "a call with *arguments")
        word = node.func.id if isinstance(node.func, ast.Name) else ""
        if word and not self._is_local(word):
            special = self._special(word, node)
            if special is not None:
                return special
        function = self._called(node.func)
        keywords = [ast.keyword(keyword.arg, self.expression(keyword.value)) for keyword in node.keywords]
        return ast.Call(function, [self.expression(argument) for argument in node.args], keywords)

    def _called(self, node: ast.expr) -> Any:
        """The target of a call: operators are nothing but called."""
        path = path_of(node)
        if path is not None and not self._is_local(path[0]):
            if path[0] == "torch" and len(path) == 2:
                return self._operator("aten", path[1])
            if path == ["torch", "autograd", "grad"]:  # as PyTorch writes that one
                return self._operator("aten", "grad")
            if path[0] == "ops" and len(path) == 3:
                return self._operator(path[1], path[2])
        return self.expression(node)

    def _special(self, word: str, node: ast.Call) -> ast.expr | None:
        """Calls of what is syntax rather than a function."""
        arguments = node.args
        if word in ("annotate", "unchecked_cast") and len(arguments) == 2:
            annotated(arguments[0], self.name)
            return self.expression(arguments[1])
        if word == "uninitialized":
            return ast.Constant(None)
        if word == "isinstance" and len(arguments) == 2:
            name = f"@type{len(self.scope)}"
            annotated(arguments[1], self.name)
            self.scope[name] = arguments[1]
            return ast.Call(ast.Name("@isinstance", ast.Load()), [self.expression(arguments[0]), ast.Name(name, ast.Load())], [])
        if word == "getattr" and len(arguments) == 2 and isinstance(arguments[1], ast.Constant):
            if type(arguments[1].value) is str:
                return ast.Call(ast.Name("@attribute", ast.Load()), [self.expression(arguments[0]), arguments[1]], [])
        return None


def _assigned(statements: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind, those of functions inside left out."""
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        waiting.extend(ast.iter_child_nodes(node))
