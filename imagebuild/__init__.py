"""Builds the image of Batchgate from ``image/Containerfile``, with its bill of materials.

``python -m imagebuild`` writes archives to build/image. See docs/image.md.
"""
