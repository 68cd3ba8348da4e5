"""Published checkpoint folders as dictionaries of float32 tensors, with torch alone."""
import json
import struct
from pathlib import Path

import torch

TYPES = {'F32': torch.float32, 'F16': torch.float16, 'BF16': torch.bfloat16}


def read_safetensors(path):
    raw = path.read_bytes()
    (header_size,) = struct.unpack('<Q', raw[:8])
    header = json.loads(raw[8 : 8 + header_size])
    data = memoryview(bytearray(raw[8 + header_size :]))
    tensors = {}
    for name, described in header.items():
        if name == '__metadata__':
            continue
        begin, end = described['data_offsets']
        values = torch.frombuffer(data[begin:end], dtype=TYPES[described['dtype']])
        tensors[name] = values.reshape(described['shape'])
    return tensors


def read_folder(folder):
    """config.json, and all tensors by their published names; floating ones as float32."""
    folder = Path(folder)
    tensors = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == '.safetensors':
            tensors.update(read_safetensors(path))
        elif path.suffix in ('.bin', '.pt'):
            tensors.update(torch.load(path, map_location='cpu'))
    floats = {name: value.float() if value.is_floating_point() else value for name, value in tensors.items()}
    return json.loads((folder / 'config.json').read_text()), floats
