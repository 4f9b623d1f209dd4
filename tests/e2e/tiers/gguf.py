"""Just enough GGUF (version 3) to change one bit of a weight and to make an adapter."""

import struct
from pathlib import Path

from report import Failure

MAGIC = b"GGUF"
ALIGNMENT = 32
F32 = 0
UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
FIXED_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, UINT32: 4, 5: 4, FLOAT32: 4, BOOL: 1, 10: 8, 11: 8, 12: 8}


class Tensor:
    def __init__(self, name, shape, kind, offset):
        self.name = name
        self.shape = shape
        self.kind = kind
        self.offset = offset  # in the file, in bytes


class _Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def number(self, layout):
        value, = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def string(self):
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def skip_value(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.skip_value(element)
        else:
            self.at += FIXED_BYTES[kind]


def tensors(path):
    """The tensors of a file by name."""
    r = _Reader(Path(path).read_bytes())
    magic, version, n_tensors, n_fields = r.data[:4], *struct.unpack_from("<IQQ", r.data, 4)
    if magic != MAGIC or version != 3:
        raise Failure(f"expected GGUF version 3 in {path}")
    r.at = 24
    for _ in range(n_fields):
        r.string()
        r.skip_value(r.number("I"))
    found = []
    for _ in range(n_tensors):
        name = r.string()
        shape = [r.number("Q") for _ in range(r.number("I"))]
        kind, offset = r.number("I"), r.number("Q")
        found.append(Tensor(name, shape, kind, offset))
    start = -(-r.at // ALIGNMENT) * ALIGNMENT
    for tensor in found:
        tensor.offset += start
    return {tensor.name: tensor for tensor in found}


def perturb(source, target):
    """Copies a model with the lowest bit of one mantissa flipped, in the middle of a layer's weights."""
    tensor = tensors(source)["blk.0.ffn_up.weight"]
    if tensor.kind != F32:
        raise Failure(f"expected 32-bit weights in {source}")
    data = bytearray(Path(source).read_bytes())
    data[tensor.offset + 4 * (tensor.shape[0] * tensor.shape[1] // 2)] ^= 1
    Path(target).write_bytes(data)


def _string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def make_lora(model, target, rank=2):
    """Writes an adapter for the queries of the first layer; its values are small and not zero."""
    base = tensors(model)["blk.0.attn_q.weight"]
    shapes = {base.name + ".lora_a": (base.shape[0], rank), base.name + ".lora_b": (rank, base.shape[1])}
    fields = [("general.type", "adapter"), ("general.architecture", "qwen3"), ("adapter.type", "lora")]
    head = MAGIC + struct.pack("<IQQ", 3, len(shapes), len(fields) + 1)
    for key, value in fields:
        head += _string(key) + struct.pack("<I", STRING) + _string(value)
    head += _string("adapter.lora.alpha") + struct.pack("<If", FLOAT32, float(rank))
    data = b""
    for name, shape in shapes.items():
        head += _string(name) + struct.pack("<IQQIQ", 2, *shape, F32, len(data))
        count = shape[0] * shape[1]
        data += struct.pack(f"<{count}f", *((i % 7 - 3) / 64 for i in range(count)))
        data += bytes(-len(data) % ALIGNMENT)
    Path(target).write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
