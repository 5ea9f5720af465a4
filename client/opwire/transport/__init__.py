"""Requests over HTTP, for both clients: one answer for each, within its time and its size, or an error that says why.

It knows nothing of operators. ``request`` says what is sent and how its answer is read, ``attempt`` sends it over a
transport of httpx, ``retry`` when to send it again; ``pool`` and ``response`` are the transport of the blocking client.
"""
