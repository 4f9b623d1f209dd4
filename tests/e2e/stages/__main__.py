"""End-to-end tests of staged serving: run_stages.sh SKIPPY MODELS SCENARIO... (it makes the private namespace).

Each scenario runs one model over several network namespaces, one address for each stage, and looks from outside: every
answer must be that of the whole model in one process. Environment: SKIPPY_E2E_SEED (printed; default: random),
SKIPPY_E2E_KEEP=1 (keeps the folder). Exit status: 0 right, 1 wrong, 77 skipped.
"""

import argparse
import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tiers"))

from network import Network  # noqa: E402
from report import Failure, Skip, end_with, say  # noqa: E402

SCENARIOS = ("selftest", "chat", "cut", "killed", "certificate", "slow", "stalled", "budgets", "restart")
EXIT_SKIPPED = 77


class Environment:
    """What every scenario needs: program, models, a folder that is removed at the end, seed, network."""

    def __init__(self, skippy, models, folder, network):
        self.skippy = skippy
        self.folder = Path(folder)
        self.network = network
        self.seed = os.environ.get("SKIPPY_E2E_SEED") or str(random.SystemRandom().randrange(10**9))
        # Stage files and digests are remembered below; a test must not depend on what other runs left there.
        self.variables = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "xdg"))
        self.certificates = None
        self._models = Path(models)
        self._n_paths = 0
        (self.folder / "xdg").mkdir()

    def model(self, name):
        path = self._models / f"{name}.gguf"
        if not path.exists():
            raise Skip(f"the test model {path} is not there")
        return path

    def new_path(self, name):
        """A path that nothing has used."""
        self._n_paths += 1
        return self.folder / f"{self._n_paths}-{name}"

    def make_certificates(self, names):
        """An authority with certificates for these names, in a folder of its own."""
        folder = self.new_path("certificates")
        command = [self.skippy, "stage", "init-certs", str(folder), *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"expected certificates in {folder}, 'skippy stage init-certs' ended with "
                          f"{done.returncode}:\n{done.stdout}{done.stderr}")
        return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skippy", required=True, help="the program")
    parser.add_argument("--models", required=True, help="folder of the generated test models")
    parser.add_argument("scenario", nargs="+", choices=SCENARIOS)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="skippy-stages-")
    try:
        with Network() as network:
            env = Environment(os.path.abspath(arguments.skippy), arguments.models, folder, network)
            for name in arguments.scenario:
                say(f"{name}, SKIPPY_E2E_SEED={env.seed}")
                importlib.import_module(name).run(env)
                say(f"{name}: all as expected")
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(EXIT_SKIPPED)
    except Failure as failure:
        end_with(str(failure))
    finally:
        if os.environ.get("SKIPPY_E2E_KEEP"):
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
