"""Store outputs: run notebooks at preset full on clean kernels, and keep what may be committed."""

import base64

from helpers import notebooks, runner


def refresh(wanted: list[str], preset: str = "full") -> int:
    """Execute notebooks on clean kernels and store them with their outputs, fit to be committed."""
    chosen = notebooks.find(wanted)
    out = runner.RUNS / "refresh"
    code = runner.run([path.stem for path in chosen], preset, {}, out, resume=False)
    if code == 0:
        for path in chosen:
            fit = notebooks.fit_to_commit(notebooks.read(out / path.name), preset)
            path.write_text(notebooks.as_text(fit), encoding="utf-8")
            if notebooks.experiment(path) == "matmul_sweep":  # its last picture is the one of the README
                _, front = list(notebooks.pictures(fit))[-1]
                path.with_name("picture.png").write_bytes(base64.b64decode(front))
    return code
