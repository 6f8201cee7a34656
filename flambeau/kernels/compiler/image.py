"""From LLVM IR to an image: machine code that runs wherever it is put.

LLVM emits a relocatable ELF object.  Kernels refer to nothing outside themselves (the ``no-builtins`` attribute keeps LLVM from calling
memset and the like), and code is position-independent, so that all references are distances within the object.  ``link`` lays the
sections behind each other and resolves these distances once; what remains is a flat run of bytes with an entry point.  Loading it is
copying it into executable memory: neither LLVM nor a linker is needed for that, which is why a second process starts its kernels in
microseconds.

    image:  | magic | entry offset | sha-256 of offset and rest | code and constants ... |
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from functools import cache
from typing import Any

from .target import Target, host

try:  # hashlib would load OpenSSL, which takes longer than a kernel
    from _sha2 import sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # Python 3.11
    except ImportError:
        from hashlib import sha256

MAGIC = b"flambeau-image-5"
_HEADER = struct.Struct("<16sQ32s")

_SHF_ALLOC = 2
_SHT_RELA, _SHT_NOBITS, _SHT_SYMTAB = 4, 8, 2


class LinkError(RuntimeError):
    """An object that cannot become an image: it refers to something outside itself."""


# -- compile ----------------------------------------------------------------------------------------------------------------------
@cache
def _machine(target: Target) -> tuple[Any, Any]:
    """LLVM's description of a target, and its optimiser for it."""
    import llvmlite.binding as llvm

    if target.triple == host().triple:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:  # to look at other processors' code
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )
    return machine, llvm


def compile_object(ir: str, target: Target) -> bytes:
    """The ELF object of a module.

    Raises:
        RuntimeError: LLVM rejects the module.
    """
    return _machine(target)[0].emit_object(_simplified(ir, target))


def _simplified(ir: str, target: Target) -> Any:
    """The parsed module, its loops rotated, its instructions combined, without values computed twice and empty blocks.

    Kernels are vectorised, unrolled and hoisted where they are written. LLVM's own pipeline takes five times as long, a third of all of
    compiling, for code of the same length and, within a few percent, the same speed.
    """
    machine, llvm = _machine(target)
    module = llvm.parse_assembly(f'target triple = "{target.triple}"\n{ir}')
    module.verify()
    passes = llvm.create_new_module_pass_manager()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return module


def assembly(ir: str, target: Target) -> str:
    """The module as the target's assembly text, for reading."""
    return _machine(target)[0].emit_assembly(_simplified(ir, target))


# -- link -------------------------------------------------------------------------------------------------------------------------
def link(elf: bytes, entry: str) -> bytes:
    """An image of an ELF object, entered at symbol ``entry``.

    Raises:
        LinkError: an undefined symbol, or a reference that depends on where the image will be.
    """
    if elf[:6] != b"\x7fELF\x02\x01":
        raise LinkError("expected a little-endian 64-bit ELF object")
    machine = struct.unpack_from("<H", elf, 18)[0]
    at, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, at + 64 * i) for i in range(count)]
    code, places = bytearray(), {}
    for i, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(headers):
        if not flags & _SHF_ALLOC or headers[i][1] == 0x70000001:  # x86 unwind tables are for debuggers
            continue
        code += bytes(-len(code) % max(align, 1))
        places[i] = len(code)
        code += bytes(size) if kind == _SHT_NOBITS else elf[offset : offset + size]
    symbols = _symbols(elf, headers)
    for _, kind, _, _, offset, size, _, section, _, _ in headers:
        if kind == _SHT_RELA and section in places:
            for where, info, addend in struct.iter_unpack("<QQq", elf[offset : offset + size]):
                name, home, value = symbols[info >> 32]
                if home not in places:
                    raise LinkError(f"kernel refers to '{name or home}', which it does not contain")
                _relocate(code, machine, info & 0xFFFFFFFF, places[section] + where, places[home] + value + addend)
    start = next((places[home] + value for name, home, value in symbols if name == entry), None)
    if start is None:
        raise LinkError(f"object has no symbol '{entry}'")
    return sealed(start, bytes(code))


def sealed(start: int, code: bytes) -> bytes:
    """The image of code that is entered at offset ``start``."""
    return _HEADER.pack(MAGIC, start, _digest(start, code)) + code


def unsealed(image: bytes) -> bytes:
    """The code that ``sealed`` was given."""
    return image[_HEADER.size :]


def _digest(start: int, code: bytes) -> bytes:
    return sha256(struct.pack("<Q", start) + code).digest()


def _symbols(elf: bytes, headers: list[tuple[int, ...]]) -> list[tuple[str, int, int]]:
    """Name, section and value of every symbol."""
    for _, kind, _, _, offset, size, names, _, _, _ in headers:
        if kind == _SHT_SYMTAB:
            text = headers[names][4]
            symbols = []
            for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", elf[offset : offset + size]):
                end = elf.index(b"\0", text + name)
                symbols.append((elf[text + name : end].decode(), section, value))
            return symbols
    raise LinkError("object without symbols")


def _relocate(code: bytearray, machine: int, kind: int, where: int, value: int) -> None:
    """Write one reference: the distance from ``where`` to ``value``."""
    if machine == 62 and kind in (2, 4):  # x86-64: 32-bit distance
        struct.pack_into("<i", code, where, value - where)
        return
    if machine == 62 and kind == 24:  # x86-64: 64-bit distance
        struct.pack_into("<q", code, where, value - where)
        return
    if machine == 183:
        word = struct.unpack_from("<I", code, where)[0]
        low = value & 0xFFF
        if kind == 275:  # aarch64 ADRP: distance in pages; images are loaded at page boundaries
            pages = (value >> 12) - (where >> 12)
            word |= (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5
        elif kind == 277:  # ADD, the address within the page
            word |= low << 10
        elif kind in (278, 284, 285, 286, 299):  # loads of 1, 2, 4, 8 and 16 bytes, scaled by their size
            word |= (low >> {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}[kind]) << 10
        elif kind in (282, 283):  # branches
            word |= ((value - where) >> 2) & 0x3FFFFFF
        elif kind == 261:  # 32-bit distance
            word = (value - where) & 0xFFFFFFFF
        else:
            raise LinkError(f"unknown aarch64 relocation {kind}")
        struct.pack_into("<I", code, where, word)
        return
    raise LinkError(f"relocation {kind} of machine {machine} depends on where the code is loaded")


# -- load -------------------------------------------------------------------------------------------------------------------------
def is_whole(image: bytes) -> bool:
    """Whether ``image`` is complete and unchanged."""
    if len(image) <= _HEADER.size:
        return False
    magic, start, digest = _HEADER.unpack_from(image)
    return magic == MAGIC and _digest(start, image[_HEADER.size :]) == digest


def pages(size: int) -> int:
    """Address of zeroed memory that is never given back: a worker may be inside until the process ends.

    Raises:
        OSError: there is none.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"mmap: no {size} bytes of memory")
    return address


def load(image: bytes) -> int:
    """Put an image into executable memory; the address of its entry.

    Raises:
        OSError: the system forbids executable memory.
    """
    _, start, _ = _HEADER.unpack_from(image)
    code = image[_HEADER.size :]
    size = -(-len(code) // mmap.PAGESIZE) * mmap.PAGESIZE
    address = pages(size)
    ctypes.memmove(address, code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect: executable memory is forbidden here")
    return address + start
