"""Statements of scripted functions, in TorchScript."""

from __future__ import annotations

import ast
from typing import Any

from ..autograd import grad_mode
from ..nn import Module
from ._annotations import is_enum
from ._expressions import DYNAMIC, Expressions, Typed, items_of
from ._literals import quoted
from .frontend import NotSupportedError, Source, UnsupportedNodeError

UNREACHED = "return uninitialized(?)"  # after an exception, where PyTorch's reader wants a result; its type is filled in at the end


class Statements(Expressions):
    """Compiles the body of a function.

    Args:
        program: compiles what is called. source: of the function. scope: names around it. names: the arguments.
        returns: the annotated type of the result, None without.
    """

    def __init__(self, program: Any, source: Source, scope: dict[str, Any], names: dict[str, Typed], returns: str | None) -> None:
        self.program, self.source, self.scope, self.names, self.returns = program, source, scope, names, returns
        self.missing: dict[str, tuple[str, Any]] = {}
        self.lines: list[str] = []
        self.found: set[str | None] = set()  # types of what is returned
        self._indent = ""
        self._guards = 0

    def emit(self, line: str) -> None:
        """Write a line."""
        self.lines.append(self._indent + line)

    def body(self, statements: list[ast.stmt]) -> bool:
        """Compile statements; whether what follows them is not reached."""
        before = len(self.lines)
        was, self._indent = self._indent, self._indent + "  "
        ended = False
        for statement in statements:
            if self.statement(statement):
                ended = True
                break
        if len(self.lines) == before:
            self.emit("pass")
        self._indent = was
        return ended

    def statement(self, node: ast.stmt) -> bool:
        """Compile a statement; whether what follows it is not reached."""
        handler = getattr(self, f"_{type(node).__name__}", None)
        if handler is None:
            raise UnsupportedNodeError(self.source, node)
        return bool(handler(node))

    # -- simple ones --------------------------------------------------------------------------------------------------------------
    def _Pass(self, node: ast.Pass) -> None:
        self.emit("pass")

    def _Break(self, node: ast.Break) -> bool:
        self.emit("break")
        return True

    def _Continue(self, node: ast.Continue) -> bool:
        self.emit("continue")
        return True

    def _Expr(self, node: ast.Expr) -> bool:
        if isinstance(node.value, ast.Constant):
            if node.value.value is Ellipsis:
                raise self.source.error("Cannot emit expr for: (dots)\n", node)
            return False
        found = self.expression(node.value)
        if found.text and not found.is_static:
            self.emit(found.text)
        return False

    def _Return(self, node: ast.Return) -> bool:
        value = Typed("None", "NoneType") if node.value is None else self.value(node.value)
        plain = ("Tensor", "int", "float", "bool", "str", "NoneType")
        before = next((kind for kind in self.found if kind in plain and kind != "NoneType"), None)
        if self.returns is None and before is not None and value.kind in plain[:-1] and value.kind != before:
            raise self.source.error(
                f"Previous return statement returned a value of type {before} but this return statement returns a value of type "
                f"{value.kind}",
                node,
            )
        self.found.add(value.kind)
        if value.kind == "Tensor" and self.returns in ("int", "float", "bool"):
            value = Typed(f"{self.returns}({value.text})", self.returns)
        if self.returns in plain and value.kind in plain and value.kind != self.returns:
            raise self.source.error(f"Return value was annotated as having type {self.returns} but is actually of type {value.kind}", node)
        self.emit(f"return {value.text}")
        return True

    def _Raise(self, node: ast.Raise) -> bool:
        exception = node.exc
        if exception is None:
            raise self.source.error("raise without an exception is not supported", node)
        call = exception if isinstance(exception, ast.Call) else ast.Call(exception, [], [])
        kind = self.expression(call.func).static
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise self.source.error("expected an exception to be raised", node)
        texts = [self.value(argument) for argument in call.args]
        message = quoted("") if not texts else texts[0].text if texts[0].kind == "str" else f'torch.format("{{}}", {texts[0].text})'
        self.emit(f"ops.prim.RaiseException({message}, {quoted(f'{kind.__module__}.{kind.__qualname__}')})")
        self.emit(UNREACHED)
        return True

    def _Assert(self, node: ast.Assert) -> bool:
        test = self.expression(node.test)
        if test.is_static and test.static:
            return False
        message = Typed(quoted("")) if node.msg is None else self.value(node.msg)
        text = f'torch.add("AssertionError: ", {message.text})' if node.msg is not None else quoted("AssertionError: ")
        self.emit(f"if {test.text}:")
        self.emit("  pass")
        self.emit("else:")
        self.emit(f"  ops.prim.RaiseException({text})")
        before = dict(self.names)
        self.narrow(node.test, True)
        for name, known in self.names.items():  # what an archive's compiler does not see
            if known is not before[name] and known.text == name and known.kind is not None:
                self.emit(f"{name} = unchecked_cast({known.kind}, {name})")
        return False

    def _Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names.pop(target.id, None)
                self.missing.pop(target.id, None)
            elif isinstance(target, ast.Subscript):
                self.emit(f"del {self.value(target).text}")
            else:
                raise NotSupportedError(self.source.location(target), "del of this is not supported")

    # -- assignments --------------------------------------------------------------------------------------------------------------
    def _Assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            self._assign_several(node)
            return
        target = node.targets[0]
        value = self.expression(node.value)
        self._assign(target, value, node)

    def _assign_several(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, Typed(value.text, value.kind), node)

    def _assign(self, target: Any, value: Typed, node: Any) -> None:
        if isinstance(target, ast.Name):
            if not value.text:  # a function, a module: known while compiling only
                self.bind(target, value)
                return
            self.emit(f"{target.id} = {value.text}")
            self.bind(target, Typed(value.text, value.kind))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            base = self.value(target.value)
            if isinstance(target.slice, ast.Slice) and str(base.kind).startswith("List["):
                raise self.source.error(
                    "Sliced expression not yet supported for subscripted assignment. File a bug if you want this", target
                )
            self.emit(f"{base.text}[{self._key(target.slice)}] = {value.text}")
        else:
            raise NotSupportedError(self.source.location(target), "unsupported assignment target")

    def _unpack(self, target: Any, value: Typed) -> None:
        if any(isinstance(part, ast.Starred) for part in target.elts):
            raise NotSupportedError(self.source.location(target), "starred unpacking isn't supported")
        parts = self._spread(value, len(target.elts))
        simple = all(isinstance(part, (ast.Name, ast.Tuple)) for part in target.elts)
        if value.text and simple and not any(item.is_static and not item.text for item in parts):
            dynamic = Typed(value.text, value.kind)
            text = self.bind(target, dynamic)
            self.emit(f"{text} = {value.text}")
            return
        name = f"unpacked_{len(self.lines)}"
        if value.text:
            self.emit(f"{name} = {value.text}")
        for place, (part, item) in enumerate(zip(target.elts, parts, strict=True)):
            self._assign(part, item if item.is_static and not item.text else Typed(f"{name}[{place}]", item.kind), target)

    def _assign_attribute(self, target: ast.Attribute, value: Typed) -> None:
        base = self.expression(target.value)
        if isinstance(base.static, Module):
            if not self.program.has_attribute(base.static, target.attr):
                raise self.source.error(
                    f"Tried to set nonexistent attribute: {target.attr}. Did you forget to initialize it in __init__()?", target
                )
        elif base.kind is None or base.kind in ("Tensor", "int", "float", "str"):
            allowed = base.kind == "Tensor" and target.attr in ("grad", "data", "requires_grad")
            if base.kind is not None and not allowed:
                raise self.source.error(f"Tried to set an attribute: {target.attr} on a non-class: {base.kind} (inferred)", target)
        self.emit(f"{base.text}.{target.attr} = {value.text}")

    def _AugAssign(self, node: ast.AugAssign) -> None:
        read: Any = ast.copy_location(type(node.target)(**{**vars(node.target), "ctx": ast.Load()}), node.target)
        result = self._BinOp(ast.copy_location(ast.BinOp(read, node.op, node.value), node))
        known = self.expression(read)
        if known.kind == "Tensor" or isinstance(node.target, ast.Subscript):
            sign = result.text[len(known.text) + 2 :].split(" ", 1)[0]
            self.emit(f"{known.text} {sign}= {self.value(node.value).text}")
            return
        self._assign(node.target, Typed(result.text, result.kind), node)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise NotSupportedError(self.source.location(node), "without assigned value")
        kind = self.type_of_node(node.annotation)
        value = self.value(node.value)
        self._assign(node.target, Typed(f"annotate({kind}, {value.text})", kind), node)

    # -- branches -----------------------------------------------------------------------------------------------------------------
    def _If(self, node: ast.If) -> bool:
        test = self.expression(node.test)
        if test.is_static:
            chosen = node.body if test.static else node.orelse
            return any(self.statement(statement) for statement in chosen)
        if not test.text:
            raise self.source.error("expected a value as a condition", node.test)
        before, absent = dict(self.names), dict(self.missing)
        self.emit(f"if {test.text}:")
        self.narrow(node.test, True)
        ended = self.body(node.body)
        first = self.names
        self.names, self.missing = dict(before), dict(absent)
        self.narrow(node.test, False)
        self.emit("else:")
        other_ended = self.body(node.orelse)
        second = self.names
        if ended or other_ended:
            self.names = second if ended else first
            return ended and other_ended
        self._merge(first, second, node)
        return False

    def _merge(self, first: dict[str, Typed], second: dict[str, Typed], node: ast.If) -> None:
        """Names after both branches, as far as both agree."""
        merged: dict[str, Typed] = {}
        for name in {**first, **second}:
            one, other = first.get(name), second.get(name)
            if one is None or other is None:
                branch = "false" if other is None else "true"
                self.missing[name] = f"{name} is not defined in the {branch} branch", node
            elif one is other or one.kind == other.kind:
                merged[name] = one
            elif one.kind in _PLAIN and other.kind in _PLAIN:
                shown = [f"{kind} (inferred)" if kind == "Tensor" else kind for kind in (one.kind, other.kind)]
                message = f"Type mismatch: {name} is set to type {shown[0]} in the true branch and type {shown[1]} in the false branch"
                self.missing[name] = message, node
            else:
                merged[name] = Typed(name, _optional(one.kind, other.kind))
        self.names = merged

    # -- loops ------------------------------------------------------------------------------------------------------------------------
    def _While(self, node: ast.While) -> bool:
        test = self.value(node.test)
        self.emit(f"while {test.text}:")
        self._loop(node.body)
        return False

    def _loop(self, statements: list[ast.stmt]) -> None:
        before = dict(self.names)
        self.body(statements)
        for name, known in before.items():
            kinds = known.kind, self.names.get(name, known).kind
            if kinds[0] != kinds[1] and all(kind in (*_PLAIN, "NoneType") for kind in kinds):
                raise self.source.error(
                    f"Variable '{name}' previously had type {kinds[0]} but is now being assigned to a value of type {kinds[1]}\n",
                    statements[0],
                )
        self.names = {name: before[name] if self.names.get(name, DYNAMIC) is DYNAMIC else self.names[name] for name in before}

    def _For(self, node: ast.For) -> bool:
        unrolled = self.unrolled(node.iter)
        if unrolled is not None:
            return self._unrolled_loop(node, unrolled)
        source = self.value(node.iter)
        before = dict(self.names)
        items = self.bind(node.target, Typed("", self._kind_of_loop(node.iter, source)))
        self.emit(f"for {items} in {source.text}:")
        self._loop(node.body)
        self.names = {name: known for name, known in self.names.items() if name in before}
        return False

    def _kind_of_loop(self, node: Any, source: Typed) -> str | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "enumerate" and node.args:
            inner = self.value(node.args[0])
            item = self.kind_of_items(node.args[0], inner)
            return f"Tuple[int, {item}]" if item else None
        return self.kind_of_items(node, source)

    def _unrolled_loop(self, node: ast.For, items: list[Typed]) -> bool:
        for part in ast.walk(ast.Module(node.body, [])):
            if isinstance(part, (ast.Break, ast.Continue)):
                raise self.source.error("break and continue are not supported in a loop over modules", part)
        for item in items:
            if isinstance(node.target, (ast.Tuple, ast.List)):
                self._unpack_static(node.target, item)
            elif item.text and not isinstance(item.static, Module):
                self.emit(f"{ast.unparse(node.target)} = {item.text}")
                self.bind(node.target, Typed(item.text, item.kind))
            else:
                self.bind(node.target, item)
            for statement in node.body:
                if self.statement(statement):
                    return True
        return False

    def _unpack_static(self, target: Any, item: Typed) -> None:
        for part, value in zip(target.elts, item.static, strict=True):
            typed = value if isinstance(value, Typed) else self.static(value)
            if isinstance(typed.static, Module):
                self.bind(part, typed)
            elif isinstance(part, (ast.Tuple, ast.List)):
                self._unpack_static(part, typed)
            else:
                self._assign(part, Typed(typed.text, typed.kind), target)

    def unrolled(self, node: Any) -> list[Typed] | None:
        """The items of a loop over modules, or over a tuple of constants; None for any other."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("enumerate", "zip", "reversed", "list"):
            return self._unrolled_call(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = self.expression(node.func.value)
            if isinstance(owner.static, Module) and node.func.attr in ("values", "items", "keys", "children", "named_children"):
                names = list(owner.static._modules)
                children = [self.program.member(owner, name, self, node) for name in names]
                if node.func.attr in ("items", "named_children"):
                    return [Typed("", None, (name, child)) for name, child in zip(names, children, strict=True)]
                return [self.static(name) for name in names] if node.func.attr == "keys" else children
            return None
        if isinstance(node, ast.Tuple):
            return [self._written_item(element) for element in node.elts]
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return None
        found = self.expression(node)
        if isinstance(found.static, type) and is_enum(found.static):
            kind = self.program.class_name(found.static)
            members: Any = found.static
            return [Typed(f"{kind}.{member.name}", kind) for member in members]
        if isinstance(found.static, Module):
            return [self.program.member(found, name, self, node) for name in items_of(found.static)]
        if found.is_static and isinstance(found.static, tuple):
            return [item if isinstance(item, Typed) else self.static(item) for item in found.static]
        return None

    def _written_item(self, node: Any) -> Typed:
        """An item of a tuple that is written out: a tuple in it stays apart, for several targets."""
        if isinstance(node, ast.Tuple):
            return Typed("", None, tuple([self._written_item(element) for element in node.elts]))
        return self.expression(node)

    def _unrolled_call(self, node: ast.Call) -> list[Typed] | None:
        assert isinstance(node.func, ast.Name)
        inner = [self.unrolled(argument) for argument in node.args]
        if not inner or None in inner or not any(isinstance(item.static, Module) for items in inner for item in items or ()):
            return None
        lists: list[Any] = inner
        if node.func.id in ("reversed", "list"):
            return lists[0][::-1] if node.func.id == "reversed" else lists[0]
        if node.func.id == "enumerate":
            return [Typed("", None, (self.static(place), item)) for place, item in enumerate(lists[0])]
        return [Typed("", None, items) for items in zip(*lists, strict=False)]

    # -- contexts -----------------------------------------------------------------------------------------------------------------------
    def _With(self, node: ast.With) -> bool:
        call = node.items[0].context_expr
        if not isinstance(call, ast.Call):
            raise UnsupportedNodeError(self.source, node, "with statements of this kind aren't supported")
        kind = self.expression(call.func).static
        if kind not in _GRAD_MODES:
            raise self.source.error(f"Python builtin {kind!r} is currently not supported in Torchscript", call.func)
        if len(node.items) != 1 or node.items[0].optional_vars is not None:
            raise UnsupportedNodeError(self.source, node, "with statements of this kind aren't supported")
        if any(isinstance(part, ast.Return) for part in ast.walk(node)):
            raise self.source.error("return inside of a with statement is not supported", node)
        enabled = "True" if kind is grad_mode.enable_grad else self.value(call.args[0]).text if call.args else "False"
        name = f"grad_mode_{self._guards}"
        self._guards += 1
        self.emit(f"{name} = torch.is_grad_enabled()")
        self.emit(f"torch.set_grad_enabled({enabled})")
        for statement in node.body:
            self.statement(statement)
        self.emit(f"torch.set_grad_enabled({name})")
        return False


_GRAD_MODES = (grad_mode.no_grad, grad_mode.enable_grad, grad_mode.set_grad_enabled)
_PLAIN = ("Tensor", "int", "float", "bool", "str")


def _optional(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return None
    for none, kind in ((one, other), (other, one)):
        if none == "NoneType":
            return kind if kind.startswith("Optional[") else f"Optional[{kind}]"
        if none == f"Optional[{kind}]":
            return none
    return None
