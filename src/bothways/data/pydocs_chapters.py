"""The chapter of Python's library reference that each module belongs to, written by hand.

The arrangement follows the reference of Python 3.13, with a few of its small chapters put together.
Left out are the modules that it calls superseded, the single codecs of `encodings` (their
docstrings were generated), and what has no Python source. How the documentation is read is in
`pydocs.py`.
"""

from __future__ import annotations

# A package stands for all of its modules, unless they have an entry of their own.
MODULES_BY_CHAPTER: dict[str, str] = {
    "text processing": "string re difflib textwrap stringprep rlcompleter struct codecs",
    "data types": (
        "datetime zoneinfo calendar collections heapq bisect weakref types copy pprint reprlib "
        "enum graphlib"
    ),
    "numbers and functions": ("numbers decimal fractions random statistics functools operator"),
    "files and directories": (
        "pathlib os.path stat filecmp tempfile glob fnmatch linecache shutil"
    ),
    "persistence and file formats": (
        "pickle copyreg shelve dbm sqlite3 csv configparser tomllib netrc plistlib"
    ),
    "compression and archives": "gzip bz2 lzma zipfile tarfile compression",
    "cryptography": "hashlib hmac secrets",
    "operating system and command line": (
        "os io logging platform ctypes argparse optparse getopt getpass fileinput curses cmd shlex"
    ),
    "concurrency": (
        "threading multiprocessing concurrent.futures concurrent.interpreters subprocess sched "
        "queue contextvars"
    ),
    "networking": "asyncio socket ssl selectors signal",
    "internet data": "email json mailbox mimetypes base64 quopri",
    "markup": "html xml.dom xml.etree xml.parsers xml.sax",
    "internet protocols": (
        "webbrowser wsgiref urllib.request urllib.parse urllib.error urllib.response "
        "urllib.robotparser http.client http.server http.cookies http.cookiejar http ftplib "
        "poplib imaplib smtplib uuid socketserver xmlrpc.client xmlrpc.server ipaddress"
    ),
    "multimedia": "wave colorsys",
    "internationalization": "gettext locale",
    "graphical interfaces": "tkinter turtle",
    "development tools": "typing pydoc doctest unittest unittest.mock",
    "debugging and profiling": "bdb pdb profile cProfile pstats timeit trace tracemalloc",
    "packaging": "ensurepip venv zipapp",
    "runtime": (
        "sysconfig warnings dataclasses contextlib abc traceback __future__ inspect "
        "annotationlib site code codeop"
    ),
    "importing": "zipimport pkgutil modulefinder runpy importlib",
    "language services": (
        "ast symtable token keyword tokenize tabnanny pyclbr py_compile compileall dis opcode "
        "pickletools"
    ),
}

# Source files whose content is documented under another name.
IMPLEMENTATIONS: dict[str, str] = {
    "_collections_abc": "collections",
    "_compression": "compression",
    "_markupbase": "html",
    "_py_abc": "abc",
    "_py_warnings": "warnings",
    "_pydatetime": "datetime",
    "_pydecimal": "decimal",
    "_pyio": "io",
    "_strptime": "datetime",
    "_threading_local": "threading",
    "_weakrefset": "weakref",
    "genericpath": "os.path",
    "ntpath": "os.path",
    "posixpath": "os.path",
    "sre_compile": "re",
    "sre_parse": "re",
}

CHAPTER_OF: dict[str, str] = {
    module: chapter for chapter, names in MODULES_BY_CHAPTER.items() for module in names.split()
}
