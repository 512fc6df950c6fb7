"""From an admission review to its answer: judge the Job, place it, write the patch.

Pure. ``review`` reads and answers reviews, ``judging`` decides about a new Job, ``updating`` about a change of one.
"""
