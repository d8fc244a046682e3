"""Kernels that begin with the libraries imported: one process imports them, and forks once for each
notebook.

What a notebook sets stays in its own process. The package and the book's modules are not imported
beforehand, so that what a kernel knows of ours is what its notebook reached (`executed`).
"""

import json
import os
import signal
import subprocess
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from threading import Lock

from jupyter_client.provisioning import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

# torch comes last: where nothing is compiled yet, `make` has it compiled meanwhile.
LIBRARIES = """IPython ipykernel.kernelapp numpy scipy.stats scipy.optimize scipy.integrate pandas
pandas.io.formats.html xarray h5netcdf.legacyapi dask.array pydantic rich.progress numba altair
matplotlib.pyplot matplotlib.backends.backend_svg jaxtyping torch torch._inductor.config
torch._dynamo torch._decomp.decompositions_for_jvp"""
ONE_AT_A_TIME = Lock()


class ForkingProvisioner(LocalProvisioner):
    """Takes kernels from the process that has imported the libraries."""

    async def launch_kernel(self, cmd, **options):
        """Have that process fork."""
        folder = str(options["cwd"])
        self.process = fork(arguments=cmd[1:], folder=folder, environment=options["env"])
        self.pid = self.pgid = self.process.pid
        return self.connection_info


class ForkedProcess:
    """A kernel's process, which is no child of ours: what jupyter_client asks of a process."""

    stdin = stdout = stderr = None

    def __init__(self, pid):
        """Take the number of the process."""
        self.pid = pid

    def poll(self):
        """Say whether it has ended: 0, or None while it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    wait = poll  # jupyter_client asks once the process has ended

    def send_signal(self, number):
        """Send a signal."""
        os.kill(self.pid, number)


@cache
def forking_process():
    """Start the process that imports the libraries, once; it ends when this one does."""
    command = [sys.executable, __file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def fork(**request):
    """Have it fork, and become a kernel."""
    with ONE_AT_A_TIME:
        asked = forking_process()
        asked.stdin.write(json.dumps(request) + "\n")
        asked.stdin.flush()
        return ForkedProcess(int(asked.stdout.readline()))


def use_forked_kernels():
    """Have all kernels of this process forked, where forking is safe: on Linux."""
    if sys.platform != "linux":
        return
    factory = KernelProvisionerFactory.instance()
    place = f"{__name__}:{ForkingProvisioner.__name__}"
    factory.provisioners["forked"] = EntryPoint("forked", place, factory.GROUP_NAME)
    factory.default_provisioner_name = "forked"


def serve():
    """Import the libraries, then fork for each line of the input."""
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # a kernel ends when its parent does
    for name in LIBRARIES.split():
        import_module(name)
    # else each kernel would ready the compiler and the models again
    import_module("numba").njit(lambda: 0)()
    import_module("pydantic").create_model("Ready")
    # imported outside of a kernel, pandas cuts tables to the width of a terminal
    import_module("pandas").set_option("display.max_columns", 20)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what ended is not waited for
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asks
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become_kernel(**json.loads(line))
        print(pid, flush=True)


def become_kernel(arguments, folder, environment):
    """Run a kernel in this process, which was just forked, and end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    # as for a kernel that was started by itself
    sys.argv = arguments[1:]
    del sys.path[0]
    sys.modules["__main__"].__file__ = find_spec("ipykernel_launcher").origin
    import numpy as np

    np.random.seed()  # noqa: NPY002  # else every kernel would draw the same numbers
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance(arguments[2:])
    os._exit(0)


if __name__ == "__main__":
    serve()
