"""What a site is: its queues, profiles, images and volumes, and what can be asked of it for a Job. Pure."""
