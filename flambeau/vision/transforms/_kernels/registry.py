"""Kernels by functional and type of input.

A functional such as ``resize`` asks :func:`kernel_of` for the function that serves the type of its input. Kernels of images and videos work
on plain tensors; :func:`register` wraps their result as the kind that came in. Kernels of boxes, points and masks are told what the tensor
knows of itself; :func:`register_described` looks at their signature, passes it on, and leaves out what they do not ask for.

A functional is declared as its kernel of images: signature and docstring of that function are the functional's (:func:`functional_of`).
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

import PIL.Image

from ....core.tensor import Tensor
from ... import tv_tensors

Kernel = Callable[..., Any]
KERNELS: dict[Kernel, dict[type, Kernel]] = {}
IMAGES = (Tensor, tv_tensors.Image, tv_tensors.Video)
_DESCRIPTIONS = ("format", "canvas_size", "clamping_mode")
_FUNCTIONAL = """\
def make(kernel_of):
    def {name}(inpt{parameters}):
        return kernel_of({name}, type(inpt))(inpt{passed})
    return {name}
"""


def is_pure_tensor(inpt: Any) -> bool:
    """Whether ``inpt`` is a tensor that does not say what it shows.

    Args:
        inpt: anything.
    Returns:
        A bool.
    Source: torchvision.transforms.v2.functional.is_pure_tensor.
    Example:
        >>> is_pure_tensor(tv_tensors.Image(torch.ones(3, 2, 2)))
        False
    """
    return isinstance(inpt, Tensor) and not isinstance(inpt, tv_tensors.TVTensor)


def plain(inpt: Any) -> Any:
    return inpt.as_subclass(Tensor) if isinstance(inpt, tv_tensors.TVTensor) else inpt


_SHAPES = {
    "image": "(..., C, H, W)",
    "video": "(..., T, C, H, W)",
    "mask": "(..., H, W)",
    "bounding_boxes": "(N, 4)",
    "keypoints": "(..., 2)",
}


# Examples of kernels of boxes and points: the other arguments, and what becomes of a box and of a point in an image of 4 by 4 pixels.
_PLACED = {
    "horizontal_flip": ("", "2., 1., 4., 3.", "2., 2."),
    "vertical_flip": ("", "0., 1., 2., 3.", "1., 1."),
    "resize": ("size=[8, 8]", "0., 2., 4., 6.", "2., 4."),
    "pad": ("padding=[1, 2]", "1., 3., 3., 5.", "2., 4."),
    "crop": ("top=1, left=0, height=3, width=3", "0., 0., 2., 2.", "1., 1."),
    "center_crop": ("output_size=[2, 2]", "0., 0., 1., 2.", "0., 1."),
    "resized_crop": ("top=1, left=0, height=2, width=2, size=[4, 4]", "0., 0., 4., 4.", "2., 2."),
    "affine": ("angle=0.0, translate=[1, 0], scale=1.0, shear=[0.0, 0.0]", "1., 1., 3., 3.", "2., 2."),
    "rotate": ("angle=90.0", "1., 2., 3., 4.", "2., 3."),
    "perspective": ("startpoints=None, endpoints=None, coefficients=[1, 0, -1, 0, 1, 0, 0, 0]", "1., 1., 3., 3.", "2., 2."),
    "elastic": ("displacement=torch.zeros(1, 4, 4, 2)", "0., 1., 2., 3.", "1., 2."),
}
_EXAMPLE = """>>> {kind} = torch.tensor([[{given}]])
        >>> {result} = {kernel}({passed})
        >>> moved
        {moved}"""


def _example(kernel: Kernel, functional: Kernel, kind: str) -> str:
    """The example of a functional with the name of its kernel; of boxes and points, one of their own."""
    name = functional.__name__
    if kind not in ("bounding_boxes", "keypoints") or name not in _PLACED:
        example = textwrap.dedent(inspect.cleandoc(functional.__doc__ or "").partition("Example:\n")[2])  # later Pythons dedent docstrings
        return re.sub(rf"\b{name}\(", f"{kernel.__name__}(", textwrap.indent(example, 8 * " ").strip())
    given, box, point = _PLACED[name]
    signature = inspect.signature(kernel)
    described = {"format": "format=tv_tensors.BoundingBoxFormat.XYXY", "canvas_size": "canvas_size=(4, 4)"}
    passed = [kind, *[described[each] for each in described if each in signature.parameters], *filter(None, [given])]
    is_box = kind == "bounding_boxes"
    return _EXAMPLE.format(
        kind=kind,
        kernel=kernel.__name__,
        given="0.0, 1.0, 2.0, 3.0" if is_box else "1.0, 2.0",
        passed=", ".join(passed),
        result="moved, canvas_size" if str(signature.return_annotation).startswith("tuple") else "moved",
        moved=f"tensor([[{box if is_box else point}]])",
    )


def _describe(kernel: Kernel, functional: Kernel) -> None:
    """Give a kernel that has no docstring the one that all of them share."""
    name = functional.__name__
    kind = kernel.__name__.removeprefix(f"{name}_")
    if kernel.__doc__ is not None or kind not in _SHAPES:
        return
    signature = inspect.signature(kernel)
    first, *others = signature.parameters
    lines = [f"{first}: ``{_SHAPES[kind]}``{', or ``(N, 5)`` or ``(N, 8)``, turned' if kind == 'bounding_boxes' else ''}."]
    known = [other for other in others if other in _DESCRIPTIONS]
    lines += [f"{', '.join(known)}: what ``tv_tensors`` know of their elements."] if known else []
    lines += [f"{', '.join(other for other in others if other not in known)}: as for ``{name}``."] if len(others) > len(known) else []
    has_size = known and str(signature.return_annotation).startswith("tuple")
    kernel.__doc__ = f"""``{name}`` of one kind, on plain tensors. Source: torchvision.transforms.v2.functional.{kernel.__name__}.

    Args:
        {f"{chr(10)}        ".join(lines)}
    Returns:
        What ``{name}`` returns, without the kind{"; and height and width of the image it lies in" if has_size else ""}.
    Raises:
        What ``{name}`` raises.
    Example:
        {_example(kernel, functional, kind)}
    """


def _enter(functional: Kernel, kind: type, kernel: Kernel) -> None:
    table = KERNELS.setdefault(functional, {})
    if kind in table:
        raise ValueError(f"Functional {functional} already has a kernel registered for type {kind}.")
    table[kind] = kernel


def _wrapping(kernel: Kernel) -> Kernel:
    @functools.wraps(kernel)
    def wrapping(inpt: Any, *args: Any, **kwargs: Any) -> Any:
        output = kernel(inpt.as_subclass(Tensor), *args, **kwargs)
        if isinstance(output, tuple):
            return tuple([tv_tensors.wrap(part, like=inpt) for part in output])
        return tv_tensors.wrap(output, like=inpt)

    return wrapping


def register(functional: Kernel, *kinds: type, wrap: bool = True) -> Callable[[Kernel], Kernel]:
    """Decorator: the kernel of ``functional`` for ``kinds``; results are of the input's kind unless ``wrap`` is False."""

    def decorator(kernel: Kernel) -> Kernel:
        _describe(kernel, functional)
        for kind in kinds:
            _enter(functional, kind, _wrapping(kernel) if wrap and issubclass(kind, tv_tensors.TVTensor) else kernel)
        return kernel

    return decorator


def register_described(functional: Kernel, kind: type) -> Callable[[Kernel], Kernel]:
    """Decorator: a kernel that may ask for ``format``, ``canvas_size`` and ``clamping_mode``, and may return a new size, too."""

    def decorator(kernel: Kernel) -> Kernel:
        _describe(kernel, functional)
        accepted = inspect.signature(kernel).parameters
        described = [name for name in _DESCRIPTIONS if name in accepted and name in kind.__annotations__]
        names = list(inspect.signature(functional).parameters)[1:]

        @functools.wraps(kernel)
        def run(inpt: Any, *args: Any, **kwargs: Any) -> Any:
            given = {**dict(zip(names, args)), **kwargs}
            options = {name: value for name, value in given.items() if name in accepted}
            options.update((name, getattr(inpt, name)) for name in described)
            output = kernel(inpt.as_subclass(Tensor), **options)
            if isinstance(output, tuple):
                return tv_tensors.wrap(output[0], like=inpt, canvas_size=output[1])
            return tv_tensors.wrap(output, like=inpt)

        _enter(functional, kind, run)
        return kernel

    return decorator


def _arguments(kernel: Kernel) -> tuple[str, ...]:
    return kernel.__code__.co_varnames[: kernel.__code__.co_argcount]


def _looking_up(kernel: Kernel) -> Any:
    """The functional with the name, the docstring and, but for the first argument, the signature of ``kernel``."""
    name, others = kernel.__name__, _arguments(kernel)[1:]
    passed = "".join([f", {other}={other}" for other in others])
    source = _FUNCTIONAL.format(name=name, parameters="".join([f", {other}" for other in others]), passed=passed)
    made: dict[str, Any] = {}
    exec(compile(source, f"<{kernel.__module__}.{name}>", "exec"), kernel.__globals__, made)
    functional = made["make"](kernel_of)
    functional.__qualname__, functional.__doc__, functional.__defaults__ = name, kernel.__doc__, kernel.__defaults__
    (_, *annotated), result = kernel.__annotations__.items(), kernel.__annotations__["return"].replace("Tensor", "Any")
    functional.__annotations__ = {"inpt": "Any", **dict(annotated), "return": result}
    return functional


def functional_of(*kinds: type, wrap: bool = True, pillow: Kernel | None = None) -> Callable[[Kernel], Any]:
    """Decorator: the functional whose kernel for ``kinds`` is the function below it; ``pillow`` is that for PIL images.

    Of ``crop(image, top)`` it makes ``crop(inpt, top)``, which looks up the kernel for the type of its input. The function itself is
    ``crop.kernel``, and ``crop_image`` among the module's names.
    """

    def decorator(kernel: Kernel) -> Any:
        functional = _looking_up(kernel)
        kernel.__name__ = kernel.__qualname__ = f"{functional.__name__}_{_arguments(kernel)[0]}"
        kernel.__doc__ = None  # it is the functional's; the kernel gets that of all kernels
        kernel.__globals__[kernel.__name__] = kernel  # where pickles look for it
        functional.kernel = register(functional, *kinds, wrap=wrap)(kernel)
        if pillow is not None:
            register(functional, PIL.Image.Image)(pillow)
        return functional

    return decorator


def kernel_of(functional: Kernel, input_type: type, *, allow_passthrough: bool = False) -> Kernel:
    """The kernel that serves ``input_type``; that which returns its input where there is none and that is allowed.

    Raises:
        TypeError: there is none.
        ValueError: ``functional`` looks up no kernels.
    """
    table = KERNELS.get(functional)
    if not table:
        raise ValueError(f"No kernel registered for functional {functional.__name__}.")
    for kind in input_type.__mro__:
        if kind in table:
            return table[kind]
        if kind is tv_tensors.TVTensor:  # other kinds are not served as plain tensors
            break
    if allow_passthrough:
        return lambda inpt, *args, **kwargs: inpt
    raise TypeError(f"Functional F.{functional.__name__} supports inputs of type {table.keys()}, but got {input_type} instead.")


def register_kernel(functional: Any, tv_tensor_cls: type) -> Callable[[Kernel], Kernel]:
    """Decorator: a kernel for a kind of tensor of one's own.

    Args:
        functional: a function of ``transforms.v2.functional``, or its name.
        tv_tensor_cls: a class derived from ``TVTensor``.
    Returns:
        The decorator.
    Raises:
        ValueError: another function, another class, or one of the library's own kinds.
    Source: torchvision.transforms.v2.functional.register_kernel.
    Example:
        >>> from flambeau.vision.transforms import v2
        >>> class Depth(tv_tensors.TVTensor): ...
        >>> register_kernel(v2.functional.invert, Depth)(lambda depth: -depth)(torch.ones(2))
        tensor([-1., -1.])
    """
    if isinstance(functional, str):
        from ..v2 import functional as namespace

        if not hasattr(namespace, functional):
            raise ValueError(f"Could not find functional with name '{functional}' in torchvision.transforms.v2.functional.")
        functional = getattr(namespace, functional)
    elif functional not in KERNELS:
        raise ValueError(
            f"Kernels can only be registered on functionals from the torchvision.transforms.v2.functional namespace, but got {functional}."
        )
    if not (isinstance(tv_tensor_cls, type) and issubclass(tv_tensor_cls, tv_tensors.TVTensor)):
        raise ValueError(f"Kernels can only be registered for subclasses of torchvision.tv_tensors.TVTensor, but got {tv_tensor_cls}.")
    if tv_tensor_cls in vars(tv_tensors).values():
        raise ValueError(f"Kernels cannot be registered for the builtin tv_tensor classes, but got {tv_tensor_cls}")
    return register(functional, tv_tensor_cls, wrap=False)
