"""What operators are shown of a cluster: its queues and Jobs, the story of one Job, what is left of a site.

Pure: objects of the API in, frozen values out, which a table or JSON is made of. Knows nothing of requests, and no
clock: whoever asks says what time it is.
"""
