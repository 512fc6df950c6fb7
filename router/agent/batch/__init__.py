"""The batch system of a site as the agent talks to it: commands, questions about jobs, and who may ask when."""
