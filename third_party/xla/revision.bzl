"""What the project is built against.

HEADERS: the FFI headers decide which XLA can load our handlers: XLA refuses a
handler that was built with newer headers than its own. These are the floor,
FFI API 0.2: jaxlib 0.8.1 and later, TensorFlow 2.21's XLA. The wheel and the
commit hold the same bytes.

RUNTIME: XLA's C++ library, prebuilt, for the C++ tests and for programs without
an XLA of their own. It speaks FFI API 0.2.
"""

HEADERS_WHEEL = struct(
    requirement = "jaxlib==0.9.0",
    sha256 = "9f9eba014590435cec5fa1f6af2310a1a05db98d61331d18d6b278ff5424cd33",
    python_version = "3.11",
    platform = "manylinux_2_27_x86_64",
)

# By FFI version: newer headers, which a test compiles handlers with.
NEWER_HEADERS = {
    "0_3": struct(
        requirement = "jaxlib==0.10.2",
        sha256 = "1faca3c5d4662cb4a6130a68105d68bb520764817e165d6eebfd6786c0d1f30f",
        python_version = "3.11",
    ),
    "0_4": struct(
        requirement = "jaxlib==0.11.1",
        sha256 = "7ebe86a7b891fcda83e7f634a677d285681a7b80b3ec9ed435536078a8371acf",
        python_version = "3.13",
    ),
    "0_5": struct(
        requirement = "jaxlib==0.12.0.1",
        sha256 = "78318e9ac79c92972f81c77090f557bdb4a5a49821751c6ee3f6a9c66a948842",
        python_version = "3.12",
    ),
}

RUNTIME_WHEEL = struct(
    requirement = "tensorflow-cpu==2.21.0",
    sha256 = "2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c",
    python_version = "3.11",
    platform = "manylinux_2_27_x86_64",
)

# A PJRT plugin of a newer XLA, for the CPU: FFI API 0.4, PJRT 0.115.
PLUGIN_WHEEL = struct(
    requirement = "lammps-jax-pjrt-cpu==0.11.2",
    sha256 = "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
    file_name = "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
    python_version = "3.11",
    platform = "manylinux_2_27_x86_64",
)

# The same headers in openxla/xla: the commit that jax 0.9.0 pins.
XLA_COMMIT = "bb760b047bdbfeff962f0366ad5cc782c98657e0"
HEADERS_SHA256 = {
    "api.h": "222a848aac58c7a9a12c3d1166652b8a8f5a42d5d30f013cbd0341e76892b45b",
    "c_api.h": "3662e3d39669b2a4914456bae4502df3947744e3a469ba4c91af369633b01708",
    "ffi.h": "922503f1f3c78a5a503bac4e1c8c004598a44ddf79d11f81bf20a9637ea2545b",
}
