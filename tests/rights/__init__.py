"""The rights of each program, held against the requests that it makes."""
