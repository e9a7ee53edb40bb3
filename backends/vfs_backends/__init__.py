"""Storage for the zones; implements `vfs.kernel.ports.Backend` and knows nothing else of the kernel.

| module | storage |
|---|---|
| `osfs` | a directory of the operating system, contained |
| `memory` | memory |
| `union` | several backends on top of one another |
| `subset` | some top-level names of another backend |
| `pyfilesystem` | any PyFilesystem2 file system |

`urls.open_backend` makes one from a URL; `view.BackendFS` shows one as a PyFilesystem2 file system;
`contract.BackendContract` is the suite that each of them passes.
"""
