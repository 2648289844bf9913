"""The version of linrank; the metadata of the package are read from this file."""

__version__ = "0.2.0"  #: the version, such as "0.2.0"
