"""Policy files: what admins write, and the decision made by it."""
