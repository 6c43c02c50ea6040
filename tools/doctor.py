"""`tools/bazel run //tools:doctor -- [LIBRARY]`; see docs/doctor.md."""

import os
import sys

from xla_ffi_kit import doctor

if __name__ == "__main__":
    # Bazel starts programs in the runfiles; paths are meant from where its
    # user is.
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    sys.exit(doctor.main())
