#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Uses lagom the way its users get it: installed, found by their build system, compiled by their compiler.

usage: install_test.py headers SOURCE COMPILER...              each public header compiles alone, under strict warnings
       install_test.py installed SOURCE BUILD COMPILER...      BUILD installed; found by pkg-config and CMake; plugins
       install_test.py subproject SOURCE BUILD COMPILER...     a subproject of a Meson project, as a shared library;
                                                               then installed, found as above; what it exports
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


class Failure(Exception):
    pass


def run(command, where=None, **environment):
    done = subprocess.run(
        [str(part) for part in command], cwd=where, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode != 0:
        words = " ".join(str(part) for part in command)
        raise Failure("%s: exit code %d\n%s%s" % (words, done.returncode, done.stdout[-4000:], done.stderr[-4000:]))
    return done.stdout


def note(line):
    print(line, flush=True)


# ---- Headers


def check_headers(source, compiler):
    """Warnings are errors, and nothing is on the include path but lagom and what the compiler brings along."""
    include = source / "runtime/include"
    headers = sorted(path.relative_to(include).as_posix() for path in include.rglob("*.hpp"))
    # The test's own compiler looks at each; the other one at the header that includes all.
    family = "clang++" if "clang" in run([*compiler, "--version"]) else "g++"
    other = "g++" if family == "clang++" else "clang++"
    jobs = [(compiler, header) for header in headers]
    if shutil.which(other):
        jobs.append(([other], "lagom/lagom.hpp"))
    else:
        note("no %s here: not tried" % other)

    def compile_one(job):
        which, header = job
        text = "#include <%s>\n#include <%s>\n" % (header, header)
        flags = [*STRICT, "-fsyntax-only", "-fvisibility=hidden", "-I", include, "-x", "c++", "-"]
        done = subprocess.run([str(p) for p in [*which, *flags]], input=text, capture_output=True, text=True)
        return None if done.returncode == 0 else "%s, %s:\n%s" % (which[-1], header, done.stderr[-3000:])

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        complaints = [c for c in pool.map(compile_one, jobs) if c]
    if complaints:
        raise Failure("\n".join(complaints))
    note("%d headers, each alone: right" % len(headers))


# ---- Consumers


class Installed:
    """An installed lagom: `root` is where the system's / would be."""

    def __init__(self, root, prefix, compiler):
        self.prefix = pathlib.Path(str(root) + str(prefix)) if root else pathlib.Path(prefix)
        found = list(self.prefix.rglob("lagom.pc"))
        if len(found) != 1:
            raise Failure("no lagom.pc under %s" % self.prefix)
        self.package = found[0]
        self.libdir = self.package.parent.parent
        self.compiler = compiler
        self.is_shared = bool(list(self.libdir.glob("liblagom.so")))

    def pkg_config(self, *arguments):
        # The prefix it was configured for is not the one it lies in.
        words = ["pkg-config", "--define-variable=prefix=%s" % self.prefix, *arguments, "lagom"]
        return run(words, PKG_CONFIG_PATH=str(self.package.parent)).split()

    def environment(self):
        return {"LD_LIBRARY_PATH": str(self.libdir)} if self.is_shared else {}


def by_pkg_config(lagom, folder):
    flags = lagom.pkg_config("--cflags")
    program = folder / "by-pkg-config"
    run([*lagom.compiler, *STRICT, *flags, CONSUMER / "program.cpp", "-o", program, *lagom.pkg_config("--libs")])
    note("pkg-config: " + run([program], **lagom.environment()).strip())
    names_it = "liblagom.so" in run(["readelf", "-d", program])
    if names_it != lagom.is_shared:
        raise Failure("pkg-config's link is %s" % ("shared" if names_it else "static"))
    archive = lagom.libdir / "liblagom.a"
    if lagom.is_shared and archive.exists():
        libraries = [str(archive) if flag == "-llagom" else flag for flag in lagom.pkg_config("--static", "--libs")]
        run([*lagom.compiler, *STRICT, *flags, CONSUMER / "program.cpp", "-o", program, *libraries])
        note("pkg-config --static: " + run([program]).strip())


def by_cmake(lagom, folder):
    if not shutil.which("cmake"):
        return note("no cmake here: not tried")
    build = folder / "by-cmake"
    # CMake wants one word for the compiler; what comes before it is a launcher, what comes after are flags.
    name = next(i for i, word in enumerate(lagom.compiler) if re.search(r"(g|clang|c)\+\+", word))
    settings = {
        "CMAKE_PREFIX_PATH": lagom.prefix,
        "CMAKE_CXX_COMPILER": shutil.which(lagom.compiler[name]),
        "CMAKE_CXX_FLAGS": " ".join(w for w in lagom.compiler[name + 1 :] if not w.startswith("-fuse-ld")),
        "CMAKE_EXE_LINKER_FLAGS": " ".join(w for w in lagom.compiler[name + 1 :] if w.startswith("-fuse-ld")),
        "CMAKE_LIBRARY_ARCHITECTURE": lagom.libdir.name,
    }
    run(["cmake", "-S", CONSUMER, "-B", build, *["-D%s=%s" % item for item in settings.items()]])
    run(["cmake", "--build", build])
    note("CMake: " + run([build / "program"]).strip())
    for wanted in ("99.0", "0.0"):
        text = (CONSUMER / "CMakeLists.txt").read_text().replace("lagom 0.1", "lagom " + wanted)
        other = folder / ("wants-" + wanted)
        other.mkdir()
        (other / "CMakeLists.txt").write_text(text)
        shutil.copy(CONSUMER / "program.cpp", other)
        done = subprocess.run(
            ["cmake", "-S", other, "-B", other / "build", *["-D%s=%s" % item for item in settings.items()]],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            raise Failure("CMake takes lagom for version %s" % wanted)


def as_plugins(lagom, folder):
    """The runtime lives in shared objects of somebody else's program, which come and go."""
    plugins = []
    for name in ("one", "two"):
        plugins.append(folder / ("plugin-%s.so" % name))
        command = [*lagom.compiler, *STRICT, "-fPIC", "-shared", "-fvisibility=hidden", *lagom.pkg_config("--cflags")]
        run([*command, CONSUMER / "plugin.cpp", "-o", plugins[-1], *lagom.pkg_config("--libs")])
    if not lagom.is_shared:
        ours = [n for n in exported(plugins[0]) if "lagom::" in n]
        if ours:
            raise Failure("a plugin with lagom inside exports\n" + "\n".join(ours[:20]))
    host = folder / "host"
    run([*lagom.compiler, *STRICT, CONSUMER / "host.cpp", "-o", host, "-ldl", "-pthread"])
    note("plugins: " + run([host, *plugins], **lagom.environment()).strip())


def exported(library):
    lines = run(["nm", "-D", "--defined-only", "--demangle", library]).splitlines()
    names = [line.split(maxsplit=2)[2].split("@@")[0] for line in lines if line.split()[1] != "A"]
    if not names:
        raise Failure("%s exports nothing" % library)
    return names


def check_exports(library, source):
    """Nothing but lagom's names, and of those only what a public header declares."""
    names = exported(library)
    strangers = [n for n in names if not n.split("(")[0].startswith("lagom::v0::")]
    if strangers:
        raise Failure("the shared library exports names that are not lagom's:\n" + "\n".join(strangers))
    include = source / "runtime/include"
    declared = "\n".join(path.read_text() for path in include.rglob("*.hpp"))
    internal = []
    for name in names:
        plain = re.sub(r"\[abi:\w+\]|<.*?>", "", name.split("(")[0])
        last = re.findall(r"operator|\w+", plain)[-1]
        if not re.search(r"LAGOM_EXPORT.*\b%s\b" % last, declared):
            internal.append(name)
    if internal:
        raise Failure("the shared library exports what no public header does:\n" + "\n".join(internal))
    soname = re.search(r"SONAME.*\[(.*)\]", run(["readelf", "-d", library]))
    if not soname or not re.fullmatch(r"liblagom\.so\.(0\.\d+|[1-9]\d*)", soname.group(1)):
        raise Failure("SONAME: %s" % (soname and soname.group(1)))
    note("%d names exported, SONAME %s" % (len(names), soname.group(1)))


def check_gdb_finds_its_script(prefix, program):
    if not shutil.which("gdb"):
        return note("no gdb here: not tried")
    before = ["-iex", "set debuginfod enabled off", "-iex", "add-auto-load-safe-path %s" % prefix]
    before += ["-iex", "add-auto-load-scripts-directory %s" % (prefix / "share/gdb/auto-load")]
    command = ["gdb", "-q", "-nx", "-batch", *before, "-ex", "break main", "-ex", "run", "-ex", "lagom fibers", program]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = done.stdout + done.stderr
    if re.search(r"ptrace|not permitted|Could not trace", said) and "Breakpoint 1, " not in said:
        return note("gdb cannot run programs here: not tried")
    if "no lagom runtime was made yet" not in said:
        raise Failure("gdb does not load the installed script with the library:\n" + said)
    note("gdb loads its script with the library")


def needed_by(objects):
    """Names of lagom's functions that these object files want from elsewhere."""
    listed = run(["nm", "--undefined-only", "--demangle", *objects]).splitlines()
    return {line.split(maxsplit=1)[1] for line in listed if line.strip().startswith("U lagom::v0::")}


def check_complete(library, build):
    """Whatever our programs that include nothing but <lagom/…> need is exported."""
    objects = [o for pattern in ("examples", "tests/scenario") for o in (build / pattern).rglob("*.o")]
    # Scenarios that look inside are linked with the objects of the library, not with the library.
    objects = [o for o in objects if not re.search(r"/(descriptor_limit|readiness)_test\.p/", o.as_posix())]
    needed = needed_by(objects) if objects else set()
    if not needed:
        return note("no objects of examples and scenarios to compare with")
    missing = sorted(needed - set(exported(library)))
    if missing:
        raise Failure("declared in a public header without LAGOM_EXPORT:\n" + "\n".join(missing))
    note("%d names that our programs need are exported" % len(needed))


# ---- Ways to get it


def check_installed(source, build, compiler, folder):
    options = json.loads(run(["meson", "introspect", "--buildoptions", build]))
    prefix = next(o["value"] for o in options if o["name"] == "prefix")
    root = folder / "root"
    run(["meson", "install", "-C", build, "--no-rebuild", "--tags", "devel,shared-library", "--destdir", root])
    lagom = Installed(root, prefix, compiler)
    note("installed as a %s library" % ("shared" if lagom.is_shared else "static"))
    by_pkg_config(lagom, folder)
    by_cmake(lagom, folder)
    as_plugins(lagom, folder)


def check_subproject(source, build, compiler, folder):
    project, made, prefix = folder / "project", folder / "made", folder / "prefix"
    shutil.copytree(CONSUMER, project)
    (project / "subprojects").mkdir()
    (project / "subprojects/lagom").symlink_to(source)
    options = ["-Dlagom:default_library=shared", "-Doptimization=0", "-Ddebug=false", "--prefix=%s" % prefix, "--libdir=lib"]
    run(["meson", "setup", made, project, "--wrap-mode=nodownload", *options], CXX=" ".join(compiler))
    run(["meson", "compile", "-C", made])
    note("meson subproject: " + run([made / "program"]).strip())
    run(["meson", "install", "-C", made, "--no-rebuild"])
    lagom = Installed(None, prefix, compiler)
    library = prefix / "lib/liblagom.so"
    check_exports(library, source)
    check_complete(library, build)
    by_pkg_config(lagom, folder)
    check_gdb_finds_its_script(prefix, folder / "by-pkg-config")
    by_cmake(lagom, folder)
    as_plugins(lagom, folder)


def main(arguments):
    what, source = arguments[0], pathlib.Path(arguments[1])
    with tempfile.TemporaryDirectory(prefix="lagom-install-") as name:
        folder = pathlib.Path(name)
        try:
            if what == "headers":
                check_headers(source, arguments[2:])
            elif what == "installed":
                check_installed(source, pathlib.Path(arguments[2]), arguments[3:], folder)
            elif what == "subproject":
                check_subproject(source, pathlib.Path(arguments[2]), arguments[3:], folder)
        except Failure as failure:
            print(failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
