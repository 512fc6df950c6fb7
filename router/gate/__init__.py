"""Answers admission reviews: judges the Job, places it, writes the patch.

Pure. ``review`` reads and answers reviews, ``judging`` decides about a new Job, ``updating`` about a change of one.
"""
