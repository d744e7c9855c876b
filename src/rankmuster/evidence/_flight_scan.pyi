from rankmuster.evidence.flight_native import Scanned

LAYOUT: int

def scan(data: bytes, /) -> Scanned | None: ...
