"""CPU kernels: numba functions on raw addresses, one package per family, and the code that prepares and calls them.

All kernels have the same parameters:

- ``zero``: a number whose type is the element type, for which the kernel is compiled. Its value does not matter: it
  tells functions that load, store or step over elements their type.
- ``source``, ``target``: addresses of the input and the output.
- ``states``: address of memory that units share, or of a second output.
- ``geometry``: the loops and other numbers of a plan, in a ``Record``.
- ``begin``, ``end``: the units of work to do. A unit's number says what it reads and writes, see ``run.walk``, so any
  units can run on any thread.

Arrays that a kernel makes for itself are freed after the last line that names them, even if their addresses are still
in use: hence the assignments to ``memory[0]`` at the end.
"""
