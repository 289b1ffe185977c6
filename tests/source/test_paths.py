"""URIs and paths of every client and system, without touching the file system."""

from __future__ import annotations

from pathlib import Path

import pytest

from forwardlens.source.paths import (
    is_inside,
    path_from_uri,
    path_key,
    relative_name,
    uri_from_path,
    uri_key,
)


@pytest.mark.parametrize(
    ("uri", "windows", "path"),
    [
        ("file:///home/ada/model.py", False, "/home/ada/model.py"),
        ("file:///home/ada/my%20models/%C3%A9.py", False, "/home/ada/my models/é.py"),
        ("file:///home/ada/a%23b%3Fc.py", False, "/home/ada/a#b?c.py"),
        ("file://localhost/home/ada/model.py", False, "/home/ada/model.py"),
        ("FILE:///home/ada/model.py", False, "/home/ada/model.py"),
        ("file:///home/ada/%FF.py", False, "/home/ada/\udcff.py"),
        ("file:///c%3A/Users/Ada/model.py", True, "C:\\Users\\Ada\\model.py"),
        ("file:///C:/Users/Ada/model.py", True, "C:\\Users\\Ada\\model.py"),
        ("file://server/share/model.py", True, "\\\\server\\share\\model.py"),
        ("untitled:Untitled-1", False, None),
        ("vscode-notebook-cell:/home/ada/a.ipynb#W0", False, None),
        ("/home/ada/model.py", False, None),
        ("", False, None),
    ],
)
def test_path_of_a_uri(uri: str, windows: bool, path: str | None) -> None:
    assert path_from_uri(uri, windows=windows) == path


@pytest.mark.parametrize(
    ("path", "windows", "uri"),
    [
        ("/home/ada/my models/é#1.py", False, "file:///home/ada/my%20models/%C3%A9%231.py"),
        ("/home/ada/a:b.py", False, "file:///home/ada/a%3Ab.py"),
        ("C:\\Users\\Ada\\model 1.py", True, "file:///C:/Users/Ada/model%201.py"),
        ("\\\\server\\share\\model.py", True, "file://server/share/model.py"),
    ],
)
def test_uri_of_a_path_and_back(path: str, windows: bool, uri: str) -> None:
    assert uri_from_path(path, windows=windows) == uri
    assert path_from_uri(uri, windows=windows) == path


@pytest.mark.parametrize(
    "uri",
    ["file:///c%3A/Users/Ada/Model.py", "file:///C:/users/ada/model.py", "file:///c:/Users/Ada/x/../Model.py"],
)
def test_spellings_of_one_windows_file_have_one_key(uri: str) -> None:
    assert uri_key(uri, windows=True) == "c:\\users\\ada\\model.py"


def test_case_matters_where_the_file_system_says_so() -> None:
    assert path_key("/home/ada/Model.py", windows=False) != path_key("/home/ada/model.py", windows=False)


def test_a_link_and_its_target_have_one_key(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert path_key(str(tmp_path / "link" / "a.py")) == path_key(str(tmp_path / "real" / "a.py"))


def test_other_uris_are_their_own_key() -> None:
    assert uri_key("untitled:Untitled%201") == uri_key("untitled:Untitled 1") == "untitled:Untitled 1"


@pytest.mark.parametrize(
    ("path", "folder", "windows", "name"),
    [
        ("/work/net/model.py", "/work", False, "net/model.py"),
        ("/work/net/model.py", "/work/", False, "net/model.py"),
        ("/workshop/model.py", "/work", False, "/workshop/model.py"),
        ("/etc/model.py", "/", False, "etc/model.py"),
        ("c:\\Work\\net\\model.py", "C:\\work", True, "net/model.py"),
        ("D:\\model.py", "C:\\work", True, "D:\\model.py"),
    ],
)
def test_name_in_a_workspace(path: str, folder: str, windows: bool, name: str) -> None:
    assert relative_name(path, folder, windows=windows) == name
    assert is_inside(path, folder, windows=windows) == (name != path)


def test_a_name_below_a_linked_folder_reads_as_the_user_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert relative_name(str(tmp_path / "link" / "a.py"), str(tmp_path / "link")) == "a.py"
    assert relative_name(str(tmp_path / "real" / "a.py"), str(tmp_path / "link")) == "a.py"
