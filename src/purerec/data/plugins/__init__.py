"""Third-party code: found by name, and only on request.

named      an object as `module:name`; installed entry points; modules to import first
readers    readers of file formats, by the suffix of the file
"""
