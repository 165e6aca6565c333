"""Projects with Maven dependencies: built from the repository the first time, and without it afterwards."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.packages.registries import folder, layers, needs, unplug  # noqa: F401

import cloche

pytestmark = [pytest.mark.usefixtures("jail", "folder"), pytest.mark.timeout(400)]
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
MODEL = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>app</groupId><artifactId>app</artifactId><version>1</version>"
    "<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>"
    "<project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties><dependencies>"
    f"{DEPENDENCY.format('org.apache.commons', 'commons-lang3', '3.14.0', '')}"
    f"{DEPENDENCY.format('junit', 'junit', '4.13.2', '<scope>test</scope>')}</dependencies></project>\n"
)
FILES = {
    "pom.xml": MODEL,
    "src/main/java/Main.java": "import org.apache.commons.lang3.StringUtils;\n\npublic class Main {\n"
    '    public static void main(String[] words) { System.out.println(StringUtils.reverse("abc")); }\n}\n',
    "src/test/java/MainTest.java": "import org.junit.Test;\n\npublic class MainTest {\n"
    "    @Test public void works() {}\n}\n",
}


@pytest.fixture(autouse=True, scope="module")
def maven() -> None:
    needs("mvn", "javac")


def test_a_project_is_packaged_and_tested_and_again_without_the_repository(
    folder: Path,  # noqa: F811
    unplug: Callable[[], None],  # noqa: F811
) -> None:
    command = "mvn -B -q package && ls target/*.jar"
    first = cloche.run(command, files=FILES, language="bash", timeout=300)
    assert "Tests run: 1, Failures: 0" in first.stdout, first.stdout
    assert "target/app-1.jar" in first.stdout, first.stdout
    program = cloche.run(files=FILES, language="java", build_timeout=300)
    assert program.stdout == "cba\n", program
    unplug()
    again = cloche.run(command, files=FILES, language="bash", timeout=300)
    assert "target/app-1.jar" in again.stdout, again.stdout
    assert len(layers(folder)) == 1


def test_without_the_repository_a_sentence_says_so(folder: Path, unplug: Callable[[], None]) -> None:  # noqa: F811
    unplug()
    done = cloche.run("mvn -B -q compile", files=FILES, language="bash", timeout=300)
    assert done.exit_code == 1, done.stderr
    assert "The Maven repository does not answer" in done.stderr, done.stderr
    assert layers(folder) == []


def test_a_file_that_changed_since_its_first_use_is_refused(folder: Path) -> None:  # noqa: F811
    path = "org/apache/commons/commons-lang3/3.14.0/commons-lang3-3.14.0.jar"
    (folder / "downloads").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "maven-hashes.db")) as known, known:
        known.execute("CREATE TABLE seen (path TEXT PRIMARY KEY, hash TEXT) WITHOUT ROWID")
        known.execute("INSERT INTO seen VALUES (?, ?)", (path, f"sha256:{'0' * 64}"))
    done = cloche.run("mvn -B -q compile", files=FILES, language="bash", timeout=300)
    assert done.exit_code == 1, done.stderr
    assert f"{path} has other contents than when it was first used" in done.stderr, done.stderr
    assert layers(folder) == []


def test_an_extension_is_refused() -> None:
    plugin = "<plugin><groupId>a</groupId><artifactId>b</artifactId><extensions>true</extensions></plugin>"
    model = MODEL.replace("</project>", f"<build><plugins>{plugin}</plugins></build></project>")
    done = cloche.run("mvn -B -q compile", files={**FILES, "pom.xml": model}, language="bash", timeout=300)
    assert done.exit_code == 1
    assert "names an extension" in done.stderr
