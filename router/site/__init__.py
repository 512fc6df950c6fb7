"""Describes a site: its queues, profiles, images and volumes, and what it can do for a Job. Pure."""
