"""HTTP requests for both clients: each gets an answer within its time and size limits, or an error that says why.

The package knows nothing of operators. ``request`` defines what is sent and how the answer is read, ``attempt`` is a
single try, ``over_httpx`` sends it over an httpx transport, and ``retry`` decides when to try again. ``pool`` and
``response`` are the default transport of the blocking client.
"""
