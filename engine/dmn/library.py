"""Owns the files that DMN files may import: found by their namespace, read once, with limits on how they are nested.
Never looks for a file: whoever reads a file gives those that it may import.
Called by the entry points of this package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from lxml import etree

from engine.dmn.reader import FileReader, Import
from engine.dmn.source import NAMESPACES, Source
from engine.errors import DefinitionInvalid, Problem
from engine.feel.lexer import spaced
from engine.xml import read_tree

MAX_LEVELS: Final = 16
MAX_IMPORTED: Final = 50


class _Imports(Exception):
    """Internal: files import each other in a way that is refused."""

    def __init__(self, rule: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.rule, self.message, self.remedy = rule, message, remedy


class _Wanted(NamedTuple):
    """What one `import` element asks for."""

    element: etree._Element
    prefix: str
    namespace: str
    location: str


class Library:
    """Files by name. May be shared by the readings of several files, which then read each import once."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self._files = files or {}
        self._by_namespace: dict[str, list[str]] | None = None
        self._read: dict[str, FileReader] = {}

    def read(self, source: Source, xml: bytes) -> FileReader:
        """The file with all that it imports; what is wrong goes to the problems of its source."""
        return self._reader(source, xml, "", (source.file,))

    def _reader(self, source: Source, xml: bytes, origin: str, path: tuple[str, ...]) -> FileReader:
        imports: list[Import] = []
        closure: dict[str, bytes] = {}
        for wanted in _wanted(source):
            found = self._found(source, wanted, path)
            imports.append(Import(wanted.prefix, wanted.namespace, found))
            if found is not None:
                closure |= {**found.imported, found.file: found.xml}
        if len(closure) > MAX_IMPORTED:
            message = f"the file imports {len(closure)} files, directly or not; the limit is {MAX_IMPORTED}"
            source.add(None, "too-many-imports", message, "Join some of them.")
        return FileReader(source, xml, origin, tuple(imports), closure)

    def _found(self, source: Source, wanted: _Wanted, path: tuple[str, ...]) -> FileReader | None:
        """The file that is imported; null, and a problem is noted, where it cannot be used."""
        name = self._named(source, wanted)
        if name is None:
            return None
        try:
            reader = self._import(name, path)
        except _Imports as refused:
            if len(path) > 1:
                raise
            source.add(wanted.element, refused.rule, refused.message, refused.remedy)
            return None
        except DefinitionInvalid as invalid:
            self._note(source, wanted, name, invalid.problems)
            return None
        errors = [problem for problem in reader.problems if problem.severity == "error"]
        if errors:
            self._note(source, wanted, name, errors)
        return reader

    def _import(self, name: str, path: tuple[str, ...]) -> FileReader:
        if name in path:
            circle = " imports ".join(f"`{each}`" for each in (*path[path.index(name) :], name))
            raise _Imports("cyclic-import", circle, "Move what both need into a file of its own.")
        if len(path) > MAX_LEVELS:
            message = f"files import files more than {MAX_LEVELS} levels deep"
            raise _Imports("imports-too-deep", message, "Join some of them.")
        if name not in self._read:
            source, xml = Source(self._files[name], name), self._files[name]
            reader = self._reader(source, xml, f"{name}#", (*path, name))
            reader.read()
            self._read[name] = reader
        return self._read[name]

    def _named(self, source: Source, wanted: _Wanted) -> str | None:
        """The name of the file that is meant; null, and a problem is noted, where there is none or more than one."""
        names = self._names(wanted.namespace)
        if len(names) > 1 and wanted.location:
            nearest = _file_name(wanted.location)
            names = [name for name in names if _file_name(name) == nearest] or names
        if len({self._files[name] for name in names}) == 1:
            return names[0]
        what = f"the file imports `{wanted.namespace}`" + (f" as `{wanted.prefix}`" if wanted.prefix else "")
        if names:
            listed = ", ".join(names[:5])
            message, remedy = f"{what}, which is the namespace of several files: {listed}", "Give each its own."
            source.add(wanted.element, "ambiguous-import", message, remedy)
        else:
            message = f"{what}, but no file with that namespace is there"
            remedy = "Put the imported file beside this one, and deploy both together."
            source.add(wanted.element, "missing-import", message, remedy)
        return None

    def _names(self, namespace: str) -> list[str]:
        if self._by_namespace is None:
            self._by_namespace = {}
            for name, xml in self._files.items():
                try:
                    root = read_tree(xml, name)
                except DefinitionInvalid:
                    continue  # told where that file is judged; it has no namespace to be found by
                if etree.QName(root).namespace in NAMESPACES:
                    self._by_namespace.setdefault((root.get("namespace") or "").strip(), []).append(name)
        return self._by_namespace.get(namespace, [])

    def _note(self, source: Source, wanted: _Wanted, name: str, errors: Sequence[Problem]) -> None:
        first = errors[0]
        where = f" of `{first.element_id}`" if first.element_id else ""
        message = f"the imported file {name} has {len(errors)} error(s); the first is the {first.rule}{where}: "
        message += first.message
        source.add(wanted.element, "wrong-import", message, "Correct the imported file first.")


def _wanted(source: Source) -> Iterator[_Wanted]:
    for number, element in enumerate(source.children(source.root, "import")):
        if number == MAX_IMPORTED:
            message = f"the file has more than {MAX_IMPORTED} imports"
            source.add(None, "too-many-imports", message, "Join some of the files.")
            break
        namespace = (element.get("namespace") or "").strip()
        kind = (element.get("importType") or "").strip()
        if kind and kind != "DMN" and "/spec/DMN/" not in kind:
            message = f"the file imports `{namespace}` of the kind `{kind}`; only DMN files are read"
            source.add(element, "import-kind", message, "Remove the import where nothing needs it.", "warning")
        else:
            location = (element.get("locationURI") or "").strip()
            yield _Wanted(element, spaced(element.get("name", "")), namespace, location)


def _file_name(location: str) -> str:
    return location.partition("#")[0].partition("?")[0].replace("%20", " ").rpartition("/")[2]
