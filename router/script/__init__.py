"""The batch script of a Job: rendered from a Workload and a Route, one per Pod template.

Pure. ``render`` is the whole of it; ``unsupported`` and ``directive_problems`` say beforehand what it cannot do.
"""

from router.script.completing import complete
from router.script.rendering import Script, render
from router.site.directives import directive_problems
from router.site.support import unsupported

__all__ = ["Script", "complete", "directive_problems", "render", "unsupported"]
