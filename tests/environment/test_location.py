import subprocess
import sys

from cloche.environment import MANIFEST, is_built, location


def test_the_environment_lives_beside_the_interpreter_that_it_is_for():
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert location().startswith(f"{sys.prefix}/lib/cloche/python-{version}-")


def test_the_operator_may_put_it_elsewhere(tmp_path):
    assert location(str(tmp_path / "env")) == str(tmp_path / "env")


def test_a_directory_without_a_manifest_is_not_built(tmp_path):
    assert not is_built(tmp_path)
    (tmp_path / MANIFEST).write_text("{}")
    assert is_built(tmp_path)


def test_asking_where_it_lives_imports_nothing_heavy():
    program = """if True:
        import sys
        import cloche
        before = set(sys.modules)
        import cloche.environment
        cloche.environment.is_built(cloche.environment.location())
        print(*sorted(set(sys.modules) - before))
    """
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"cloche.environment", "cloche.environment.fingerprint"}
