"""The batch system of a site as the agent uses it: commands, questions about jobs, and when they are asked."""
