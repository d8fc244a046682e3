"""Bad command lines and bad files: what is typed, and what the one message must say.

Files are made once, in a folder that is read only by habit: no command may change anything in it.
In an argument ``{here}`` is that folder.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import h5py
import numpy as np
import torch

import lwcore

SMOKE = (Path(lwcore.__file__).parent / "configs" / "smoke.toml").read_text(encoding="utf-8")
SPECTRA = (Path(lwcore.__file__).parent / "sweeps" / "spectra.toml").read_text(encoding="utf-8")


class Line(NamedTuple):
    """A command line, and patterns that its message must match, all of them."""

    arguments: tuple[str, ...]
    says: tuple[str, ...]

    @property
    def label(self) -> str:
        """A short name for the test."""
        return " ".join(self.arguments).replace("{here}/", "")[:70]


def line(text: str, *says: str) -> Line:
    """Split a command line at its spaces."""
    return Line(tuple(text.split()), says)


class Runs:
    """A pickle that would make a file as soon as it is loaded."""

    def __reduce__(self) -> tuple[Callable[[str, int], object], tuple[str, int]]:
        return os.mkdir, ("marker", 0o700)


def smoke(before: str, after: str) -> bytes:
    """Write the smallest configuration with one thing changed."""
    assert before in SMOKE
    return SMOKE.replace(before, after, 1).encode()


# A configuration each, and what must be said of it.
TOML = {
    "unknown-key": (
        smoke("[task]", "[task]\nspeed = 3"),
        r"task\.speed: .*not permitted \(given: 3\)$",
    ),
    "misspelt-key": (smoke("[task]", "[task]\nlenght = 3"), r"task\.lenght: .*\(given: 3\)"),
    "unknown-section": (SMOKE.encode() + b"\n[magic]\n", "magic: .*not permitted"),
    "missing-section": (
        SMOKE.partition("[diagnostics]")[0].encode(),
        "diagnostics: Field required",
    ),
    "duplicate-key": (
        smoke("[task]", "[task]\nnoise = 0.1\nnoise = 0.2"),
        "not valid TOML .*overwrite",
    ),
    "no-utf-8": (
        smoke("description", "# \xff\ndescription").replace("ÿ".encode(), b"\xff"),
        "not valid TOML .*0xff",
    ),
    "empty": (b"", "name: Field required"),
    "ten-megabytes": (b"# " + b"x" * 10_000_000 + b"\nname = 3\n", r"name: .*string \(given: 3\)"),
    "deep-arrays": (b"a = " + b"[" * 20_000, "deep-arrays.toml.*not valid TOML \\(.*recursion"),
    "huge-integer": (
        smoke("steps = 30", f"steps = {'9' * 5000}"),
        "huge-integer.toml.*not valid TOML \\(Exceeds the limit",
    ),
    "seed-beyond-64-bits": (
        smoke("seeds = [1, 2]", f"seeds = [{2**63}]"),
        rf"seeds\.0: .*less than.*{2**63}",
    ),
    "negative-seed": (
        smoke("seeds = [1, 2]", "seeds = [-1]"),
        r"^seeds\.0: [^:]*greater than or equal to 0 \(given: -1\)",
    ),
    "no-seeds": (smoke("seeds = [1, 2]", "seeds = []"), "seeds: .*at least 1 item"),
    "seed-twice": (
        smoke("seeds = [1, 2]", "seeds = [1, 1]"),
        r"seeds: .*must not name anything twice \(given: \[1, 1\]\)",
    ),
    "rate-with-unit": (
        smoke("learning_rate = ", 'learning_rate = "1 per mille" # '),
        r"training\.learning_rate: .*valid number \(given: '1 per mille'\)",
    ),
    "rate-nan": (
        smoke("learning_rate = ", "learning_rate = nan # "),
        r"training\.learning_rate: .*finite number \(given: nan\)",
    ),
    "rate-negative": (
        smoke("learning_rate = ", "learning_rate = -0.1 # "),
        r"training\.learning_rate: .*greater than 0 \(given: -0\.1\)",
    ),
    "task-as-number": (
        b"task = 3\n" + SMOKE.partition("[task]")[0].encode(),
        r"task: .*valid dictionary.* \(given: 3\)",
    ),
    "models-unknown": (
        smoke("models = [", 'models = ["RNN", '),
        r"models\.0: .*'ConstGate'.*\(given: 'RNN'\)",
    ),
    "lags-fall": (
        smoke("[task]\n", "[task]\nlags = [3, 1]\n").replace(b"\nlags = [2, 5]", b""),
        r"task\.lags: .*must be strictly increasing|overwrite",
    ),
    **{
        f"name-{what}": (
            smoke('name = "smoke"', f"name = {name}"),
            "name: .*(pattern|at most 100|valid string)",
        )
        for what, name in {
            "climbs": '"../../x"',
            "has-a-nul": r'"a\u0000b"',
            "is-long": f'"{"x" * 300}"',
            "ends-with-a-line": r'"a\n"',
            "is-a-table": "{a = 1}",
        }.items()
    },
}
SWEEPS = {
    "unknown-base": (
        SPECTRA.replace('base = "', 'base = "x-').encode(),
        r"name = 'x-.*must be one of",
    ),
    "no-axes": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[axes]\n',
        "axes: .*at least 1 item",
    ),
    "axis-twice": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n'
        + b"[[axes.a]]\nlabel = 1\nchanges = {}\n" * 2,
        "axes.a = .*labels, none twice",
    ),
    "change-of-self": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[changes]\nself = 3\n[[axes.a]]\nlabel = 1\nchanges = {}\n',
        "self.*not permitted",
    ),
    "change-of-name": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[[axes.a]]\nlabel = 1\nchanges = {name = {b = 1}}\n',
        "name.*valid string",
    ),
    "misspelt-label": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[[axes.a]]\nlable = 1\nchanges = {}\n',
        r"axes\.a\.0\.lable: Extra",
    ),
    "misspelt-measured": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\nmesured = true\n[[axes.a]]\nlabel = 1\nchanges = {}\n',
        r"mesured: Extra",
    ),
    "misspelt-change": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[[axes.a]]\nlabel = 1\nchanges = {task = {lenght = 30}}\n',
        r"task\.lenght: Extra",
    ),
    "label-as-list": (
        b'name = "a"\ndescription = ""\nbase = "smoke"\n[[axes.a]]\nlabel = [1]\nchanges = {}\n',
        "label.*valid",
    ),
}

ROOT = os.geteuid() == 0  # to whom every file is readable
LINES = [
    *(
        line(f"run {{here}}/{name}.toml --directory {{here}}/out", says)
        for name, (_, says) in (TOML | SWEEPS).items()
    ),
    line("run", "Missing argument"),
    line("run nonsense", "name = 'nonsense': must be one of"),
    line("run ../configs/smoke", r"name = '\.\./configs/smoke': must be one of"),
    line("run {here}/nothing.toml", "No such file.*nothing.toml"),
    line("run {here}/folder.toml", "path = .*folder.toml': must be a file"),
    line("run {here}/pipe.toml", "path = .*pipe.toml': must be a file"),
    line("run {here}/dangling.toml", "No such file.*dangling.toml"),
    line("run {here}/text.txt", "must be one of"),
    line("run smoke --executor moon", "--executor.*'moon'.*'here'"),
    line("run smoke --speed 3", "No such option.*--speed"),
    line("run smoke --directory {here}/text.txt", "(File exists|Not a directory): '.*text.txt"),
    line(
        "run smoke --no-resume --directory {here}/text.txt",
        "(File exists|Not a directory): '.*text.txt",
    ),
    line("run smoke --directory {here}/text.txt/below", "(File exists|Not a directory): '.*below"),
    line(
        "run smoke --directory {here}/dangling.nc", "(File exists|Not a directory): '.*dangling.nc"
    ),
    line("show", "Missing argument"),
    line("show {here}/nothing.nc", "path = .*nothing.nc': there is no such result file"),
    line("show {here}", "path = .*there is no such result file"),
    line("show {here}/dangling.nc", "path = .*there is no such result file"),
    line("show {here}/text.txt", "path = .*not a whole result file"),
    line("show {here}/empty.toml", "path = .*not a whole result file"),
    line("show {here}/plain.h5", "path = .*must be a result of this package"),
    line("show {here}/damaged/smoke.nc", "path = .*not a whole result file"),
    line("diagnose", "Missing option"),
    line(
        "diagnose --checkpoint {here}/nothing.pt --data {here}/data.npz",
        "No such file or directory: '.*nothing.pt'",
    ),
    line(
        "diagnose --checkpoint {here} --data {here}/data.npz",
        "directory: ",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/nothing.npz",
        "No such file or directory: '.*nothing.npz'",
    ),
    line("diagnose --checkpoint {here}/weights.pt --data {here}", "directory: "),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/text.txt",
        "data = .*must be an .npz file",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/pickled.npz",
        "data = .*must be an .npz file",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/no-targets.npz",
        "data = .*must be an .npz file.*targets",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/text.npz", "data = .*must be numbers"
    ),
    *(
        line(
            f"diagnose --checkpoint {{here}}/{name} --data {{here}}/data.npz",
            f"checkpoint = .*{name}': must hold weights alone",
        )
        for name in ("empty.toml", "text.txt", "missing-section.toml")
    ),
    line(
        "diagnose --checkpoint {here}/cut-off.pt --data {here}/data.npz",
        "checkpoint = .*cut-off.pt': must hold weights alone",
    ),
    line(
        "diagnose --checkpoint {here}/malicious.pt --data {here}/data.npz",
        "checkpoint = .*must hold weights alone",
    ),
    line(
        "diagnose --checkpoint {here}/malicious.pkl --data {here}/data.npz",
        "checkpoint = .*must hold weights alone",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/data.npz --lags x",
        "lags = 'x': must be integers with commas",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/data.npz --source moon",
        "source = 'moon'",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/data.npz --nonlinearity moon",
        "'moon' is not one of",
    ),
    line(
        "diagnose --checkpoint {here}/weights.pt --data {here}/data.npz --recurrent moon",
        "No such option",
    ),
    line("claims --ledger {here}/nothing", "nothing: no ledger"),
    line("claims --ledger {here}/text.txt", "text.txt: not a ledger"),
    line("claims --speed 3", "No such option.*--speed"),
    line("nonsense", "No such command 'nonsense'"),
    *(
        []
        if ROOT
        else [
            line("run {here}/unreadable.toml", "Permission denied.*unreadable.toml"),
            line("show {here}/unreadable.nc", "unreadable.nc"),
        ]
    ),
]
COMMANDS = {
    "lwcore.cli.run": "run",
    "lwcore.cli.show": "show",
    "lwcore.cli.diagnose_network": "diagnose",
    "lwcore.cli.claims": "claims",
}


def make_files(here: Path) -> None:
    """Make the files that the lines name."""
    for name, (content, _) in (TOML | SWEEPS).items():
        (here / f"{name}.toml").write_bytes(content)
    (here / "text.txt").write_text("a few words")
    (here / "folder.toml").mkdir()
    os.mkfifo(here / "pipe.toml")
    for name in ("dangling.toml", "dangling.nc"):
        (here / name).symlink_to(here / "gone")
    for name in ("unreadable.toml", "unreadable.nc"):
        (here / name).write_text("")
        (here / name).chmod(0)
    (here / "damaged").mkdir()
    (here / "damaged" / "smoke.nc").write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100)
    with h5py.File(here / "plain.h5", "w") as file:
        file["a"] = 1.0
    with h5py.File(here / "bare.nc", "w") as file:
        file.attrs["fingerprint"] = "0" * 12
    lstm = torch.nn.LSTM(1, 2)
    torch.save(
        {f"recurrent.{name}": value for name, value in lstm.state_dict().items()},
        here / "weights.pt",
    )
    (here / "cut-off.pt").write_bytes((here / "weights.pt").read_bytes()[:-100])
    torch.save(Runs(), here / "malicious.pt")
    (here / "malicious.pkl").write_bytes(pickle.dumps(Runs()))
    np.savez(here / "data.npz", inputs=np.zeros((50, 6)), targets=np.zeros(50))
    np.savez(here / "no-targets.npz", inputs=np.zeros((50, 6)))
    np.savez(here / "text.npz", inputs=np.full((50, 6), "a"), targets=np.zeros(50))
    with zipfile.ZipFile(here / "pickled.npz", "w") as archive:
        for name in ("inputs", "targets"):
            archive.writestr(f"{name}.npy", _npy_with(Runs()))


def _npy_with(thing: object) -> bytes:
    """Write an array file that holds a pickled object."""
    head = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117)
        + b"\n"
    )
    return head + pickle.dumps(thing)
