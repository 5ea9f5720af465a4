"""Proxies from the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

import httpx


def proxy_for(url: httpx.URL) -> httpx.Proxy | None:
    """Returns the proxy for requests to a server, or None.

    Raises:
        ValueError: the proxy in the environment is not a valid URL.
    """
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or proxy_bypass(url.netloc.decode("ascii")):
        return None
    try:
        return httpx.Proxy(named if "://" in named else f"http://{named}")
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"the proxy {named!r} for {url.scheme} from the environment is invalid: {error}") from error


def unreached(proxy: httpx.Proxy | None) -> str:
    """Returns the message for a failed connection; it names a proxy without its password."""
    return "no connection" if proxy is None else f"no connection through the proxy {proxy.url.host} of the environment"
