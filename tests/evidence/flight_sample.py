"""One real recorder of torch 2.13 (gloo, three collectives), dumped in both forms at the same moment."""

from __future__ import annotations

import base64
import zlib


def _unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


PICKLE = _unpack(
    "eNp1k1lu1EAQhj3j7Pu+EyAbhqBoMqBE4YknhGJpnltCxnLsnqkWHtvlbgcFEQleosANOACH4A4cgEPwwgmguj1OIArzMrV2ff13+UP93GGDlm"
    "Wd8lyKNEGL9ZHX3NtvYI0Nk5l1/DBN2qKDupQCFtpk6Kok6HLsA9s4EZch9pPTT04eJG8kDjCb7FcNDweLgk2RHabdrh+LE78aN0QNvSlSBaqQ"
    "OEyH1yjSwBGylsiKA6l8nmDBCx4RTBzzUIlTjqOuzRarAmrP1b/5sePf9GPLVQlNz2J+o2jctQlOS8ATlQsuccJzaLKmynmY5pEvIpx0LXMx4i"
    "Rvirxx7eVpyKX0O3laZDgNI2zEKNEOilj5WQdnLtgoRRTkPIh8o9csG9CdZwro+nNmTC9NB8+zSfL3nzb2m42jw+aTw4OjgwYusGmjXcXsS466"
    "etGtmYFZM6tCSz3ONNPeMhVMlJxtEYukUyKsmCmdOE2fBXHs5zwqQo6rJqpEl/sh8WiZEolrn4dq39//eP3155K5ikiygsQW70ioO57jOe4U52"
    "zsKhOps4xS655jOF7EaaDwblmRFuq6+d5V8/h1qtd933OAevQBeis4bhidZAiEGvMIN9lKxRoJGaa0ToRbrQBhb7XY2i0V1xtANdst8+w5V4Jy"
    "uHNpxNQtRON3JT44fv521TLvJaRPKqPzqTh3YNKtAa0A0IPDzAXMwhzMwwIsunUg/WGZ/m9I3AkU8BwfAsn5xfto5IRSvj7OYd3cF0pJaiZUSg"
    "AbsAlbLdhuwc4llDxQQdRvh7B7EDZBTFQQJ3kaRCF9BPhIM6z8+vY3g+3WSwrzJb8M4jbuVjhlTuPs/heHF/h47w8fY0S7"
)
"""`_dump_fr_trace(True, False, False)`"""

JSON = _unpack(
    "eNrFlWGOmzAQhe8yv2llm5AAB6h6hyiyvGYgVh3M2malbZS7d0xg02QTqZW6XSQQ+M08z8yH4AjaHQ7Smif5gj4Y10MNkAH20RsMUG+PFGEt6m"
    "heUAZ8lqaBmmdg+mGMsomvwxQG36xTEXaLEMzPaX3L17u0GOQgBqhbZQNm4IbFxo3xgc+s3BiRy1sVjB67tzvvNIYgO+/GIRkxaqPBVo02yqFL"
    "jhTSGmv6TvbqgNRoZ52rlbXSYzNqpASP2vlm8fQYDUlQRz9S1SGqmNKC3lO8JSGDuPeozgnAV4wLVm1EvllXa3ZR5+2G17inAdOyOaDUJEUkkb"
    "rjm6qoKsE3Ja94UfBVWc1RjQnaERoKJFKDxSWFvQ+g+vyNTEOUh7RBydJxyu7iFH+Oc/WYpvgrmtnq43B2Ku7RX+Pkn4WzLFjFiv+JM3+P87uy"
    "7R2aeSYe88zv8Fx8bnHORv8e55N3qtEqxGua4pNoFkVRrkvxMTRpCL3WVk6f5Lmf42kao3Z9azp6hHQ2GPT5Oz0Xn4aj+h/kBVu2g9M5KVmMIS"
    "WwdLE0xd/qvLw4lJWTw6Rj/zzi+FBeurhSv/Bpx8sPRHzlDE6/ACNUIlw="
)
"""`_dump_fr_trace_json(True, False)`"""
