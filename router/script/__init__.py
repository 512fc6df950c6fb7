"""Renders the batch script of a Job from a Workload and a Route, one script per Pod template.

Pure. ``render`` writes the script; ``unsupported`` and ``directive_problems`` say beforehand what a script cannot do.
"""

from router.script.completing import complete
from router.script.rendering import Script, render
from router.site.directives import directive_problems
from router.site.support import unsupported

__all__ = ["Script", "complete", "directive_problems", "render", "unsupported"]
